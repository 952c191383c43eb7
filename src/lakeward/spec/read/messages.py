"""Pydantic's errors as plain sentences, with the path a user wrote and the valid keys."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from lakeward.spec.model.base import KeysProblem, SpecModel, too_many, written
from lakeward.spec.model.descriptions import descriptions
from lakeward.spec.model.unsupported import supported_keys, supported_values
from lakeward.spec.read.problems import nearest
from lakeward.spec.read.text_positions import Path_
from lakeward.spec.sql.statements import SqlProblem

_EXPECTED = {
    "string_type": "this must be text; put it in quotes",
    "string_too_short": "this must not be empty",
    "int_type": "this must be a whole number, without quotes",
    "int_from_float": "this must be a whole number",
    "float_type": "this must be a number",
    "float_parsing": "this must be a number",
    "bool_type": "this must be true or false, without quotes",
    "bool_parsing": "this must be true or false",
    "dict_type": "this must be a mapping (key: value)",
    "model_type": "this must be a mapping (key: value)",
    "model_attributes_type": "this must be a mapping (key: value)",
    "tuple_type": "this must be a list ([a, b])",
    "list_type": "this must be a list ([a, b])",
    "too_short": "this must not be empty",
    "none_required": "remove this key",
    "finite_number": "this must be a number",
    "date_from_datetime_parsing": "this must be a day: 2026-12-31",
    "date_type": "this must be a day: 2026-12-31",
    "date_parsing": "this must be a day: 2026-12-31",
}
_MAPPING_FIRST = ("literal_error", "value_error")


@dataclass(frozen=True)
class Finding:
    """One problem that a model or a check reports.

    Attributes:
        key: the key is wrong, not its value.
        summary: only repeats more specific findings below it.
        at: 1-based (line, column) inside the text of the value, for SQL.
        missing: the value is missing.
        about: the keys at `path` that it concerns (None: unknown).
        needs: other paths that it depends on.
    """

    path: Path_
    message: str
    value: Any = None
    valid: tuple[str, ...] = ()
    nearest: str | None = None
    key: bool = False
    summary: bool = False
    at: tuple[int | None, int | None] | None = None
    warning: bool = False
    missing: bool = False
    about: tuple[str, ...] | None = None
    needs: tuple[Path_, ...] = ()


def findings(error: ValidationError, model: type[BaseModel], data: Any) -> list[Finding]:
    """All findings, one per path: of several about one value (a union tries each form) the most specific is kept."""
    by_path: dict[Path_, Finding] = {}
    for details in sorted(error.errors(include_url=False), key=lambda e: e["type"] not in _MAPPING_FIRST):
        finding = _finding(dict(details), model, data)
        by_path.setdefault(finding.path, finding)
    return [finding for finding in by_path.values() if not (finding.summary and _reported_below(finding.path, by_path))]


def two_forms(kind: Any, data: Any, path: Path_ = ()) -> Iterator[Finding]:
    """Mappings with several keys of which only one is allowed, even if their values are invalid."""
    model = next(iter(_models(kind)), None)
    if isinstance(data, dict) and model is not None and issubclass(model, SpecModel):
        forms = model.one_of[1]
        chosen = [form for form in forms if data.get(form) not in (None, [])]
        if len(chosen) > 1:
            problem = too_many(model, chosen, forms)
            yield Finding(path, str(problem), data, about=problem.keys)
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from two_forms(_step(kind, key), value, (*path, key))


def _reported_below(path: Path_, reported: Iterable[Path_]) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in reported)


def _finding(error: dict[str, Any], model: type[BaseModel], data: Any) -> Finding:
    kind, loc, given = error["type"], tuple(error["loc"]), error.get("input")
    context = error.get("ctx") or {}
    if kind == "missing":
        path = _real_path(loc[:-1], data)
        field = str(loc[-1])
        return Finding((*path, field), f"this is missing{_purpose(model, (*path, field))}", missing=True)
    if kind == "extra_forbidden":
        path, field = _real_path(loc[:-1], data), str(loc[-1])
        removed = getattr(_model_at(model, path), "removed", {}).get(field)
        if removed:
            return Finding((*path, field), f"unknown key {field!r}: {removed}; delete the line", field, key=True)
        known = known_keys(model, path)
        return Finding((*path, field), f"unknown key {field!r}", field, known, nearest(field, known), key=True)
    path = _real_path(loc, data)
    if kind == "literal_error":
        valid = _values(model, path, str(context.get("expected")))
        block = isinstance(given, dict | list)
        what = "this block" if block else repr(given)
        return Finding(path, f"{what} is not known here", given, valid, nearest(str(given), valid), summary=block)
    if loc[-1:] == ("[key]",):  # the key itself is invalid
        return Finding(path, str(context.get("error") or error["msg"]), str(path[-1]), key=True)
    if kind == "value_error":
        cause = context.get("error")
        text = str(cause) if cause else error["msg"].removeprefix("Value error, ")
        if isinstance(cause, KeysProblem):
            return Finding(path, text, given, about=cause.keys)
        return Finding(path, text, given, at=(cause.line, cause.column) if isinstance(cause, SqlProblem) else None)
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        than = {"greater_than": "more than", "greater_than_equal": "at least", "less_than": "less than"}
        bound = next(iter(context.values()))
        return Finding(path, f"this must be {than.get(kind, 'at most')} {bound}", given)
    return Finding(
        path,
        _EXPECTED.get(kind) or str(error["msg"])[:1].lower() + str(error["msg"])[1:],
        given,
        summary=kind == "too_short",
    )


def _real_path(loc: tuple[Any, ...], data: Any) -> Path_:
    """`loc` without the parts that name a union form or the check of a key instead of data."""
    path: list[str | int] = []
    for part in loc:
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
            path.append(part)
    return tuple(path)


def known_keys(model: type[BaseModel], path: Path_) -> tuple[str, ...]:
    """The valid keys at `path` below `model`; empty if any key is allowed."""
    kind = _model_at(model, path)
    if kind is None:
        return ()
    keys = [info.alias or name for name, info in kind.model_fields.items() if not _unwritten(info)]
    extra = getattr(kind, "also_written", None)
    return (*supported_keys(written(kind).__name__, keys), *(extra() if extra else ()))


def _values(model: type[BaseModel], path: Path_, expected: str) -> tuple[str, ...]:
    """The valid values of the key at `path`, of pydantic's text about them."""
    all_ = tuple(re.findall(r"'([^']*)'", expected)) or (expected.lower(),)
    kind = _model_at(model, path[:-1])
    return all_ if kind is None or not path else supported_values(written(kind).__name__, str(path[-1]), all_)


def _unwritten(info: FieldInfo) -> bool:
    """Whether only the loader sets the field."""
    return any(isinstance(item, cast(type, SkipJsonSchema)) for item in info.metadata)


def _purpose(model: type[BaseModel], path: Path_) -> str:
    kind = _model_at(model, path[:-1])
    if kind is None:
        return ""
    for name, text in descriptions(kind).items():
        if (kind.model_fields[name].alias or name) == path[-1]:
            first = text.split("\n")[0].rstrip(".")
            return f": {first[:1].lower()}{first[1:]}"
    return ""


def _model_at(model: type[BaseModel], path: Path_) -> type[BaseModel] | None:
    kind: Any = model
    for part in path:
        kind = _step(kind, part)
        if kind is None:
            return None
    models = _models(kind)
    return models[0] if models else None


def _step(kind: Any, part: str | int) -> Any:
    for candidate in _options(kind):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            for name, info in candidate.model_fields.items():
                if part in (name, info.alias):
                    return info.annotation
        arguments = get_args(candidate)
        if get_origin(candidate) is dict:
            return arguments[1]
        if get_origin(candidate) in (tuple, list) and isinstance(part, int):
            return arguments[0]
    return None


def _options(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        return _options(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return [option for member in get_args(kind) for option in _options(member)]
    return [kind]


def _models(kind: Any) -> list[type[BaseModel]]:
    return [option for option in _options(kind) if isinstance(option, type) and issubclass(option, BaseModel)]
