"""The `millrace` command. Parsing imports nothing heavy; each subcommand loads what it needs when it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

DESCRIPTION = """\
Raw crawl and curated text to a training corpus (on Spark), and the corpus to a trained language model.

  millrace corpus demo-crawl                      make a small crawl from this machine's own texts
  millrace corpus build configs/corpus/demo.yaml  build or continue a corpus
  millrace corpus check build/demo/corpus         audit a finished corpus
  millrace corpus show build/demo/corpus          the funnel, the datasets, the blend; or one document and its way
  millrace corpus stages                          every stage and its config values
"""

BUILD = """\
Build a corpus. A rerun does only what changed; a run that was killed continues where it was.

Any value of the config can be given here as key.sub=value, the value in YAML:
  millrace corpus build my.yaml seed=7 stages.language.keep=[en,de] sources.pages.paths=[crawl/*.warc.gz]

Where it runs: --master local[8], spark://host:7077, yarn ... or $SPARK_MASTER; more in a cluster file, see
configs/cluster/. What it contains does not depend on it.
"""


#: What comes with millrace[corpus]: its absence is no fault of the code.
CORPUS_EXTRA = {
    *("fastwarc", "fasttext", "ftfy", "isal", "numba", "pandas", "pyarrow", "pycld2", "pyspark", "resiliparse"),
    "zstandard",
}


def parser() -> argparse.ArgumentParser:
    """The command's parser; each subcommand names the function that runs it as `module:function`."""
    top = _parser(argparse.ArgumentParser, prog="millrace", description=DESCRIPTION)
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    corpus = commands.add_parser("corpus", help="raw text to datasets").add_subparsers(metavar="COMMAND", required=True)
    build = _parser(corpus.add_parser, "build", help="build or continue a corpus", description=BUILD)
    build.add_argument("config", help="a corpus config, YAML")
    build.add_argument("overrides", nargs="*", metavar="key=value", help="config values to replace")
    build.add_argument("--dry-run", action="store_true", help="print files, steps and what is done; run nothing")
    _where(build)
    build.set_defaults(run="pipelines.build:build")

    check = corpus.add_parser(
        "check", help="audit a finished corpus", description="Audit a finished corpus; exit 1 if anything is wrong."
    )
    check.add_argument("workspace", help="folder of the run, or its corpus.yaml")
    check.add_argument(
        "--samples",
        type=_number,
        default=100,
        help="documents of each dataset whose tokens are compared with their text (%(default)s)",
    )
    check.set_defaults(run="pipelines.inspect:check")

    show = corpus.add_parser(
        "show",
        help="the funnel, the datasets; or one document and its way",
        description="Show a finished corpus, or one document of it.",
    )
    show.add_argument("workspace", help="folder of the run, or its corpus.yaml")
    show.add_argument("document", nargs="?", help="a document's id, or DATASET:NUMBER for the sequence of that number")
    show.set_defaults(run="pipelines.inspect:show")

    stages = corpus.add_parser(
        "stages", help="every stage and its config values", description="List every stage and its config values."
    )
    stages.add_argument("stage", nargs="?", help="only this one; your own as package.module:Class")
    stages.set_defaults(run="pipelines.inspect:stages")

    demo = corpus.add_parser(
        "demo-crawl",
        help="make a small crawl from this machine's own texts",
        description="Make a small crawl, with planted faults, from Python documentation and sources that lie here.",
    )
    demo.add_argument("folder", nargs="?", default="build/demo/crawl", help="where it goes (%(default)s)")
    demo.set_defaults(run="pipelines.build:demo_crawl")
    return top


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _parser(make, *names, **options):  # type: ignore[no-untyped-def]
    return make(*names, formatter_class=argparse.RawDescriptionHelpFormatter, **options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command. Overrides may stand anywhere; argparse takes only those that stand together."""
    top = parser()
    options, more = top.parse_known_args(arguments)
    if not hasattr(options, "overrides") or any(argument.startswith("-") for argument in more):
        top.parse_args(arguments)  # says what is wrong, and exits
    else:
        options.overrides += more
    return options


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", default=os.environ.get("SPARK_MASTER"), help="Spark master ($SPARK_MASTER; else the cluster file's)"
    )
    parser.add_argument("--cluster", help="a cluster config, YAML (configs/cluster/local.yaml and others)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 something was found wrong, 2 the user's input was."""
    options = _options(arguments)
    sys.path.insert(0, os.getcwd())  # a user's own stages are found in the folder where the command runs
    from corpus.problems import UserError

    module, function = options.run.split(":")
    try:
        return int(getattr(importlib.import_module(module), function)(options))
    except UserError as error:
        print(f"millrace: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing in CORPUS_EXTRA:
            print(f"millrace: {missing} is not installed: pip install 'millrace[corpus]'", file=sys.stderr)
            return 2
        raise
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("\nmillrace: stopped; the same command continues", file=sys.stderr)
        return 130
