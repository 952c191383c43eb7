"""Import and export of suites as Great Expectations' JSON. Pure: documents in, documents out.

`why` maps to GX's `notes`; scope, on_fail, waive_until, table and owner are below the key `lakeward` of `meta`. What a
suite file cannot hold is listed, never dropped silently.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeward.platform.errors import SpecError
from lakeward.spec.model.suite import Suite

OURS = "lakeward"
_CARRIED = ("scope", "on_fail", "waive_until")
_OF_SUITE = {
    "id": "an id of Great Expectations; here a check's id is the hash of its assertion",
    "ge_cloud_id": "an id of Great Expectations' cloud",
    "notes": "a suite file has no notes; write a comment",
    "suite_parameters": "values filled in at run time; write them into the kwargs",
    "evaluation_parameters": "values filled in at run time; write them into the kwargs",
    "data_asset_type": "the table decides",
}
_OF_ONE = {
    "id": _OF_SUITE["id"],
    "ge_cloud_id": _OF_SUITE["ge_cloud_id"],
    "rendered_content": "text that Great Expectations generates",
    "expectation_context": "text that Great Expectations generates",
    "success_on_last_run": "a result, not a rule",
    "windows": "limits that Great Expectations' cloud moves",
}
_OF_RUN = ("result_format", "catch_exceptions", "batch_id", "include_config", "auto", "profiler_config", "windows")


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        document: the content of the suite file.
        left: what could not be carried, as sentences; empty keys and values do not count.
    """

    document: dict[str, Any]
    left: tuple[str, ...]


def exported(suite: Suite) -> dict[str, Any]:
    """The suite in the form of `ExpectationSuite.to_json_dict`, which `ExpectationSuite(**...)` reads."""
    listed = []
    for expectation in suite.expectations:
        ours = {"id": expectation.id, "scope": expectation.scope, "on_fail": expectation.on_fail}
        if expectation.waive_until is not None:
            ours["waive_until"] = expectation.waive_until.isoformat()
        one = {
            "type": str(expectation.type),
            "kwargs": _json(expectation.kwargs),
            "meta": {**_json(expectation.meta or {}), OURS: ours},
            "severity": expectation.severity,
        }
        listed.append(one if expectation.why is None else {**one, "notes": str(expectation.why)})
    meta = {**_json(suite.meta or {}), OURS: {"table": str(suite.table), "owner": str(suite.owner)}}
    return {"name": str(suite.table), "expectations": listed, "meta": meta}


def imported(found: Any, table: str, owner: str | None, otherwise: str) -> Imported:
    """A suite file's content from GX 1.x's or 0.18's JSON.

    Args:
        found: the parsed JSON.
        table: namespace.table of the suite.
        owner: the owner; None: the owner in a Lakeward export, or `otherwise`.
        otherwise: the default owner.

    Raises:
        SpecError: it is not a suite, or nothing of it can be carried.
    """
    listed = found.get("expectations") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise SpecError(
            "The file is not a suite of Great Expectations",
            why="A suite is a JSON object with a list `expectations`, as written by ExpectationSuite.to_json_dict().",
            next="write the suite with json.dumps(suite.to_json_dict()) and import that file",
            code="LW-5020",
        )
    meta, ours = _split(found.get("meta"))
    uncarried = [f"{key}: {why}" for key, why in _OF_SUITE.items() if found.get(key)]
    known = {"expectations", "meta", "name", "expectation_suite_name", *_OF_SUITE}
    uncarried += [f"{key}: a suite file has no such key" for key in found if key not in known and found[key]]
    taken, dropped = [], Counter[str]()
    for index, each in enumerate(listed):
        try:
            taken.append(_one(each, dropped))
        except _Uncarried as error:
            uncarried.append(f"expectations[{index}]: left out: {error}")
    uncarried += [f"{key} ({_times(count)})" for key, count in dropped.items()]
    if not taken:
        raise SpecError(
            "No expectation of this suite can be imported",
            why="; ".join(uncarried) or "it has no expectations",
            next="name a suite with expectations that Lakeward runs (docs/reference/expectations.md)",
            code="LW-5021",
        )
    document = {"table": table, "owner": owner or str(ours.get("owner") or otherwise)}
    if meta:
        document["meta"] = meta  # type: ignore[assignment]  # a mapping among strings
    return Imported({**document, "expectations": taken}, tuple(uncarried))


class _Uncarried(Exception):
    """Raised when an expectation would change its meaning without the part that cannot be carried."""


def _one(each: Any, dropped: Counter[str]) -> dict[str, Any]:
    name = each.get("type") or each.get("expectation_type") if isinstance(each, dict) else None
    if not isinstance(name, str):
        raise _Uncarried("it has no type")
    kwargs = each.get("kwargs") or {}
    if not isinstance(kwargs, dict):
        raise _Uncarried(f"{name}: its kwargs are not a mapping")
    for path in _parameters("kwargs", kwargs):
        raise _Uncarried(f"{name}: {path} is a $PARAMETER, filled in at run time; write the value instead")
    meta, ours = _split(each.get("meta"))
    why = _text(each.get("notes"))
    if "expectation_type" in each:  # 0.18 keeps notes in meta
        why = why or _text(meta.pop("notes", None))
    description = _text(each.get("description"))
    if description and why and description != why:
        dropped["description: the notes are its `why`"] += 1
    found: dict[str, Any] = {"type": name}
    if arguments := {key: _as_written(value) for key, value in kwargs.items() if key not in _OF_RUN}:
        found["kwargs"] = arguments
    found |= {"severity": each["severity"]} if each.get("severity") else {}
    found |= {key: ours[key] for key in _CARRIED if ours.get(key) is not None}
    if why or description:
        found["why"] = why or description
    if meta:
        found["meta"] = meta
    for key in kwargs:
        if key in _OF_RUN:
            dropped[f"kwargs.{key}: the run decides it"] += 1
    read = {"type", "expectation_type", "kwargs", "meta", "severity", "notes", "description"}
    for key in each:
        if key not in read and each[key]:
            dropped[f"{key}: {_OF_ONE.get(key, 'a suite file has no such key')}"] += 1
    return found


def _split(meta: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """GX's and Lakeward's part of `meta`. The version of the library that wrote it is not part of the suite."""
    theirs = dict(meta) if isinstance(meta, dict) else {}
    ours = theirs.pop(OURS, None)
    theirs.pop("great_expectations_version", None)
    return theirs, ours if isinstance(ours, dict) else {}


def _as_written(value: Any) -> Any:
    """A row condition as text; GX 1.x wraps it on export. Unwrapped, the check keeps its id."""
    if isinstance(value, Mapping) and value.get("type") == "pass_through":
        return value.get("pass_through_filter")
    return value


def _parameters(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$PARAMETER" in value:
            yield path
        for key, item in value.items():
            yield from _parameters(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _parameters(f"{path}[{index}]", item)


def _text(notes: Any) -> str:
    """Notes are a text, a list of texts, or in 0.18 `{format, content}`."""
    if isinstance(notes, Mapping):
        notes = notes.get("content")
    if isinstance(notes, list):
        return "\n".join(str(each) for each in notes)
    return str(notes) if notes else ""


def _times(count: int) -> str:
    return "1 expectation" if count == 1 else f"{count} expectations"


def _json(value: Any) -> Any:
    """As JSON data; values that YAML reads as dates become text."""
    return json.loads(json.dumps(value, default=str))
