"""YAML files to typed configs, with overrides from the command line.

`!include other.yaml` stands for the content of another file, relative to the one that names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from corpus.problems import UserError, describe

Model = TypeVar("Model", bound=BaseModel)


def load_config(model: type[Model], path: str | Path, overrides: Sequence[str] = ()) -> Model:
    """Read a config file as `model`; each override is `key.sub=value`, the value in YAML.

    In a list, a key picks the entry of that name: `sources.pages.format=warc`, `stages.language.keep=[en]`.

    Raises: UserError with one line for each fault: file, key, what is wrong, the nearest right one.
    """
    content = read_yaml(path)
    for override in overrides:
        _override(content, override)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise UserError("\n".join(f"{path}: {line}" for line in describe(error, model))) from error


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The keys and values of a YAML file. A key that is given twice is an error.

    Raises: UserError naming the file and the line.
    """
    content = _parse(Path(path))
    if not isinstance(content, dict):
        raise UserError(f"{path}: must hold keys and values, not {type(content).__name__}")
    return content


def _parse(path: Path, including: tuple[Path, ...] = ()) -> Any:
    if path.resolve() in including:
        raise UserError(f"{including[-1]}: !include leads back to {path}")

    class Loader(yaml.SafeLoader):
        pass

    def include(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
        return _parse(path.parent / str(loader.construct_scalar(node)), (*including, path.resolve()))  # type: ignore[arg-type]

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) < len(node.value):
            raise UserError(f"{path}:{node.start_mark.line + 1}: a key must be a word; write quotes around {{{{ }}}}")
        for key in keys:
            if keys.count(key) > 1:
                raise UserError(f"{path}:{node.start_mark.line + 1}: key {key!r} is given twice")
        loader.flatten_mapping(node)
        return {loader.construct_object(key): loader.construct_object(value, deep=True) for key, value in node.value}

    Loader.add_constructor("!include", include)
    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        with path.open(encoding="utf-8") as stream:
            return yaml.load(stream, Loader)  # a subclass of SafeLoader
    except FileNotFoundError as error:
        raise UserError(f"{path}: not found{_neighbours(path)}") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise UserError(f"{path}:{line}: {error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: {str(error).splitlines()[0]}") from error


def _neighbours(path: Path) -> str:
    names = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
    nearest = difflib.get_close_matches(path.name, names, n=1, cutoff=0.0)
    return f"; did you mean {path.parent / nearest[0]}?" if nearest else ""


def _override(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"override {override!r}: write key.sub=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"override {override!r}: the value is not YAML: {str(error).splitlines()[0]}") from error
    *parents, last = key.split(".")
    target: Any = content
    for depth, part in enumerate(parents):
        target = _inside(target, part, ".".join(parents[:depth]), override)
    if isinstance(target, list):
        index, entry = _entry(target, last, ".".join(parents), override)
        named = last == entry or (isinstance(entry, dict) and last in entry)
        target[index] = {last: value} if named else value
    elif isinstance(target, dict):
        target[last] = value
    else:
        raise UserError(f"override {override!r}: {'.'.join(parents)} is {target!r} and has no keys")


def _inside(target: Any, part: str, parent: str, override: str) -> Any:
    """The part of a config that a key names; an absent one is made, so that defaults can be overridden."""
    if isinstance(target, dict):
        if target.get(part) is None:
            target[part] = {}
        return target[part]
    if isinstance(target, list):
        index, entry = _entry(target, part, parent, override)
        if isinstance(entry, str):
            target[index] = entry = {part: {}}
        if part in entry:
            if entry[part] is None:
                entry[part] = {}
            return entry[part]
        return entry
    raise UserError(f"override {override!r}: {parent} is {target!r} and has no keys")


def _entry(target: list[Any], part: str, parent: str, override: str) -> tuple[int, Any]:
    """The entry of a list by its number, its `name`, or its only key."""
    for index, entry in enumerate(target):
        name = entry.get("name", next(iter(entry), None)) if isinstance(entry, dict) else entry
        if part in (str(index), name):
            return index, entry
    raise UserError(f"override {override!r}: {parent} has no entry {part!r}")
