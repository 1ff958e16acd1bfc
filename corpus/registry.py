"""Names of stages in a config, and the classes behind them.

A user's own stage is named by its class: `my_package.my_module:MyStage`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re

from corpus.stage import CorpusStage, DocumentStage, Stage

#: Built-in stages, in the order of a usual corpus. Loaded only when a config names them.
BUILT_IN = {
    "extract": "corpus.documents.extract:Extract",
    "repair": "corpus.documents.repair:Repair",
    "language": "corpus.documents.language:Language",
    "c4_lines": "corpus.documents.c4_lines:C4Lines",
    "measure": "corpus.documents.measure:Measure",
    "rules": "corpus.documents.rules:Rules",
    "exact_dedup": "corpus.dedup.exact:ExactDedup",
}


def stage_class(name: str) -> type[Stage]:
    """The class behind a stage's name in a config.

    Raises: ValueError saying what is wrong with the name, with the nearest built-in one.
    """
    if name not in BUILT_IN and ":" not in name:
        nearest = difflib.get_close_matches(name, BUILT_IN, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(BUILT_IN)}"
        raise ValueError(f"no stage is called {name!r}: {hint} (a class of your own is named package.module:Class)")
    module_name, class_name = BUILT_IN.get(name, name).split(":", 1)
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise ValueError(f"stage {name!r}: cannot import {module_name!r}: {error}") from error
    except AttributeError as error:
        raise ValueError(f"stage {name!r}: {module_name!r} has no class {class_name!r}") from error
    except Exception as error:
        raise ValueError(f"stage {name!r}: importing {module_name!r} raised {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, DocumentStage | CorpusStage)):
        raise ValueError(f"stage {name!r}: it is neither a DocumentStage nor a CorpusStage of corpus.stage")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", getattr(found, "name", "")):
        raise ValueError(
            f"stage {name!r}: the class needs `name = ...`: a letter, then letters, digits and _, lower case"
        )
    if inspect.isabstract(found):
        raise ValueError(f"stage {name!r}: the class lacks {', '.join(sorted(found.__abstractmethods__))}")
    return found
