"""Run the benchmarks, print a table, write build/bench/NAME.json.

Each bench_NAME.py has `run() -> list[dict]` with rows {name, ours, peer, unit, ratio, peer_version, runs, notes}; `ratio`
says how many times better ours is, measured interleaved in one run.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent


def main(names: list[str]) -> int:
    """Run the benchmarks called `names`, or all."""
    present = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in names if name not in present]
    if unknown:
        print(f"no benchmark is called {unknown[0]!r}; there are {', '.join(present)}", file=sys.stderr)
        return 2
    sys.path.insert(0, str(HERE.parent / "support"))
    folder = Path("build/bench")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or present:
        rows = _load(present[name]).run()
        (folder / f"{name}.json").write_text(json.dumps(rows, indent=2) + "\n")
        Console(width=140).print(_table(name, rows))
    return 0


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=name, title_justify="left")
    for column in ("name", "ours", "peer", "unit", "ratio", "peer_version", "runs", "notes"):
        table.add_column(column, justify="right" if column in {"ours", "peer", "ratio", "runs"} else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in (c.header for c in table.columns)))
    return table


def _cell(value: Any) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
