"""JSON schemas of suites, judged before a row is read: a wrong one would be an error of every row. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakeward.quality.arguments.faults import Fault
from lakeward.spec.read.document import Path_

KIND = "expect_column_values_to_match_json_schema"
_KEY = "json_schema"
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def faults(schema: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with a schema: a keyword with a wrong value, a pattern, or a reference into nothing."""
    from jsonschema import validators
    from jsonschema.exceptions import SchemaError

    try:
        judge = validators.validator_for(schema)
        judge.check_schema(schema, format_checker=judge.FORMAT_CHECKER)
    except SchemaError as error:
        path = (_KEY, *error.absolute_path)
        valid = _TYPES if path[-1] == "type" else ()
        yield Fault(path, f"this is not a JSON schema: {error.message.splitlines()[0]}", error.instance, valid)
        return
    except Exception as error:  # noqa: BLE001 - the library raises any type, e.g. of a $schema that is not a text
        yield Fault((_KEY,), f"this is not a JSON schema: {type(error).__name__}: {error}")
        return
    if any("$id" in each or "id" in each for each in _inside(schema)):
        return  # a part with an address of its own is what references in it begin at
    for path, reference in _references((_KEY,), schema):
        if reference.startswith("#") and not _leads_somewhere(schema, reference):
            yield Fault(path, f"{reference} is not in the schema", reference)


def _inside(value: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings below the top level that are no list of properties."""
    for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        if isinstance(each, Mapping | list):
            if isinstance(each, Mapping) and key not in ("properties", "patternProperties"):
                yield each
            yield from _inside(each)


def _references(path: Path_, value: Any) -> Iterator[tuple[Path_, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key == "$ref" and isinstance(each, str):
                yield (*path, key), each
            elif key not in ("const", "default", "enum", "examples"):  # data, not schemas
                yield from _references((*path, str(key)), each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _references((*path, index), each)


def _leads_somewhere(schema: Mapping[str, Any], reference: str) -> bool:
    """Whether a pointer (`#/definitions/x`) names a part of the schema; a name of an anchor passes."""
    if reference != "#" and not reference.startswith("#/"):
        return True
    at: Any = schema
    for part in reference[2:].split("/") if reference != "#" else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, Mapping) and name in at:
            at = at[name]
        elif isinstance(at, list) and name.isdigit() and int(name) < len(at):
            at = at[int(name)]
        else:
            return False
    return True
