"""Imports run one way, and the command answers at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_import_rules_hold() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_border_modules_load_neither_spark_nor_torch_nor_arrow() -> None:
    code = (
        "import sys, corpus.indexed, corpus.manifest, corpus.tokenizer\n"
        "heavy = {'pyspark', 'torch', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom pipelines.cli import parser\nparser().format_help()\n"
        "heavy = {'pyspark', 'torch', 'pyarrow', 'numpy', 'pydantic', 'yaml', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_no_file_is_too_long_to_read() -> None:
    for path in ROOT.glob("[cpt]*/**/*.py"):
        assert len(path.read_text().splitlines()) <= 520, path
