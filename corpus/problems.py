"""Errors that a person made: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError


class UserError(Exception):
    """Wrong input or configuration. The command prints its message and exits with 2; nobody needs a traceback."""


def describe(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One line for each fault that pydantic found in a config of type `model`: `key.sub: what is wrong`."""
    return [_line(fault, model) for fault in error.errors(include_url=False)]


def _line(fault: Any, model: type[BaseModel]) -> str:
    place = [part for part in fault["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    key = _dotted(place)
    if fault["type"] == "extra_forbidden":
        known = _fields(model, place[:-1])
        nearest = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(known)}"
        return f"{key}: unknown key; {hint}"
    if fault["type"] == "missing":
        return f"{key}: is missing"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key}: {message[0].lower()}{message[1:]}, not {_short(fault.get('input'))}"


def _dotted(place: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _fields(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """Names of the keys that are allowed at `place` in a config of type `model`."""
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            inner = _model_in(model.model_fields[part].annotation)
            if inner is None:
                return []
            model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    found = (_model_in(inner) for inner in typing.get_args(annotation))
    return next((inner for inner in found if inner is not None), None)
