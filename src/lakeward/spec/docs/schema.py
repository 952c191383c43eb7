"""The JSON Schemas of the spec files, for editors and for the reference: `python -m lakeward.spec.docs.schema [DIR]`.

Generated from the models; a contracts test keeps docs/reference current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lakeward.spec.checks import lints
from lakeward.spec.docs import policy_page
from lakeward.spec.docs.reference import page
from lakeward.spec.model.custom_expectations import OWN
from lakeward.spec.model.decode import Decode
from lakeward.spec.model.policy import FLOORS, REASONS, TABLE_CLASSES
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.sinks import Sink
from lakeward.spec.model.sources import Reference, Source
from lakeward.spec.model.stream import OF_THE_SOURCE, SINGLE, StreamSpec
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.tables import Tables
from lakeward.spec.model.transform import Transform
from lakeward.spec.model.trigger import UNBATCHED, Trigger
from lakeward.spec.model.unsupported import UNSUPPORTED
from lakeward.spec.read.provenance import reason

FILES: dict[str, tuple[type[BaseModel], str]] = {
    "stream": (StreamSpec, "A stream of Lakeward: conf/streams/<id>.yaml"),
    "tables": (Tables, "Maintenance of the lake's tables: conf/tables.yaml"),
    "lakeward": (Settings, "Settings of a Lakeward project: conf/lakeward.yaml"),
    "suite": (Suite, "Expectations of one table: expectations/<namespace>.<table>.yaml"),
}
REFERENCE = "specs.md"
_ONE_OF = (Source, Sink, Reference, Transform, Trigger, Decode)
_DEFAULTS_OF = {
    "KafkaSource": "kafka", "KafkaSink": "kafka", "FilesSource": "files",
    "IcebergSource": "iceberg", "DeltaSource": "delta", "RateSource": "rate", "IcebergSink": "iceberg",
    "Decode": "decode",
    "Deduplicate": "deduplicate", "Reference": "reference", "SchemaPolicy": "schema", "Limits": "limits",
    "State": "state", "Restart": "restart",
}  # fmt: skip
_SECTIONS = {"CompactOverride": "compact", "DeletesOverride": "deletes", "ExpireOverride": "expire",
             "ManifestsOverride": "manifests", "MetadataOverride": "metadata",
             "OrphansOverride": "orphans"}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one kind of file (`stream`, `tables`, `lakeward` or `suite`), without what is refused."""
    model, title = FILES[name]
    made = model.model_json_schema(by_alias=True, mode="validation")
    made = _without_refused(_without_nulls(made), model.__name__)
    for kind in _ONE_OF:
        definition = made.get("$defs", {}).get(kind.__name__)
        if definition:
            choices = [choice for choice in kind.one_of[1] if choice in definition["properties"]]
            definition["oneOf"] = [{"required": [choice]} for choice in choices]
    if name == "stream":
        _short_form(made)
        _caps(made)
        _reasons_of_defaults(made)
    if name == "suite":
        _own_checks(made)
    if name == "tables":
        _reasons_of_policies(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}


def _without_refused(made: dict[str, Any], model: str) -> dict[str, Any]:
    """Leave out the keys and values that this version refuses: an editor that offered one would mislead."""
    definitions = {model: made, **made.get("$defs", {})}
    for (kind, key), refused in UNSUPPORTED.items():
        fields = definitions.get(kind, {}).get("properties", {})
        if "*" in refused:
            fields.pop(key, None)
        elif key in fields:
            fields[key]["enum"] = [value for value in fields[key]["enum"] if value not in refused]
    used = _named(made, definitions)
    made["$defs"] = {name: definition for name, definition in made.get("$defs", {}).items() if name in used}
    return made


def _named(node: Any, definitions: dict[str, Any]) -> set[str]:
    """The definitions that a schema names, also through others."""
    found, pending = set[str](), [{key: value for key, value in node.items() if key != "$defs"}]
    while pending:
        each = pending.pop()
        pending += each.values() if isinstance(each, dict) else each if isinstance(each, list) else []
        name = str(each.get("$ref", "")).rpartition("/")[2] if isinstance(each, dict) else ""
        if name and name not in found:
            found.add(name)
            pending.append(definitions[name])
    return found


def _short_form(made: dict[str, Any]) -> None:
    """Add the short form: the model has only `sources:`; files may use `source:` with its keys beside it."""
    properties = made["properties"]
    one = {"$ref": "#/$defs/Source", "description": "The only source; it is then named `source`."}
    properties[SINGLE] = one
    inside = made["$defs"]["Source"]["properties"]
    for key in OF_THE_SOURCE:
        properties[key] = inside[key] | {"description": f"{key} of the only source, beside `source:`."}
    # `owner` and other keys may come from `defaults:` of conf/lakeward.yaml, and the id from the file name.
    made["required"] = ["sink"]
    made["oneOf"] = [{"required": [SINGLE]}, {"required": ["sources"]}]


def _own_checks(made: dict[str, Any]) -> None:
    """The arguments of Lakeward's own expectations; the suite lint knows those of Great Expectations."""
    made["$defs"]["Expectation"]["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"kwargs": _without_nulls(model.model_json_schema(by_alias=True))}},
        }
        for name, model in OWN.items()
    ]


def _caps(made: dict[str, Any]) -> None:
    """A topic needs a rate limit, unless the trigger has no batches."""
    capped = {"properties": {"kafka": {"required": ["max_offsets_per_trigger"]}}}
    unbatched = {"anyOf": [{"required": [kind]} for kind in UNBATCHED]}
    made["if"] = {"required": ["trigger"], "properties": {"trigger": unbatched}}
    made["else"] = {"properties": {SINGLE: capped, "sources": {"additionalProperties": capped}}}


def _reasons_of_defaults(made: dict[str, Any]) -> None:
    """Add the reason of each default of a stream, as `config show` prints it."""
    _reasons_below((), made["properties"])
    for kind, section in _DEFAULTS_OF.items():
        if kind in made["$defs"]:
            _reasons_below((section,), made["$defs"][kind]["properties"])


def _reasons_below(path: tuple[str, ...], properties: dict[str, Any]) -> None:
    for key, value in properties.items():
        why = reason((*path, key)) if "default" in value else None
        if why and why != "none":
            value["description"] = _joined(value.get("description"), f"Default: {why}.")


def _reasons_of_policies(made: dict[str, Any]) -> None:
    for kind, section in _SECTIONS.items():
        for key, value in made["$defs"].get(kind, {}).get("properties", {}).items():
            path = f"{section}.{key}"
            floor = f" Floor: {FLOORS[path][0]} ({FLOORS[path][1]})." if path in FLOORS else ""
            value["description"] = _joined(value.get("description"), f"{_default(path)} {REASONS[path]}.{floor}")
    made["description"] += f" Classes: {', '.join(TABLE_CLASSES)}."


def _default(path: str) -> str:
    from lakeward.spec.model.policy import Policy

    value: Any = Policy()
    for part in path.split("."):
        value = getattr(value, part)
    return "Default by size:" if value is None else f"Default {str(value).lower()}:"


def _joined(first: str | None, second: str) -> str:
    return f"{first} {second}" if first else second


def _without_nulls(node: Any) -> Any:
    """Replace `anyOf: [X, null]` by X: a file omits a key without a value instead of writing null."""
    if isinstance(node, list):
        return [_without_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {key: _without_nulls(value) for key, value in node.items() if not (key == "default" and value is None)}
    options = cleaned.get("anyOf")
    if isinstance(options, list):
        remaining = [option for option in options if option != {"type": "null"}]
        if len(remaining) == 1:
            rest = {key: value for key, value in cleaned.items() if key != "anyOf"}
            return remaining[0] | rest
        cleaned["anyOf"] = remaining
    return cleaned


def write(folder: Path) -> list[Path]:
    """Write every schema into `folder` as `<name>.schema.json`, and the reference page; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in FILES:
        file = folder / f"{name}.schema.json"
        file.write_text(text(name))
        files.append(file)
    files.append(folder / REFERENCE)
    files[-1].write_text(page(schema, FILES))
    files.append(folder / "lints.md")
    files[-1].write_text(lints.page())
    files.append(folder / policy_page.PAGE)
    files[-1].write_text(policy_page.page())
    return files


def text(name: str) -> str:
    """The schema as written to its file."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
