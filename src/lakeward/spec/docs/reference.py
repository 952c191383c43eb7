"""The reference page of the spec files, docs/reference/specs.md, from the same schemas that editors read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_HEAD = """\
# Keys of the spec files

Generated from the models (`make schemas`); the JSON Schemas beside this page are the same for editors. A key that is
not here is refused. Durations are written `10s`, `5m`, `2h`, `7d`, sizes `128MB`; tables are `namespace.table`."""


def page(schema: Callable[[str], dict[str, Any]], names: Iterable[str]) -> str:
    """The page over the schemas of all kinds of files.

    Args:
        schema: makes the schema of a kind of file.
        names: the kinds of files.
    """
    parts = [_HEAD]
    for name in names:
        made = schema(name)
        parts.append(f"## {made['title']}\n\n{_prose(made)}")
        parts.append(_table(made, made["$defs"]))
        for kind in _order(made):
            definition = made["$defs"][kind]
            if definition.get("properties"):
                parts.append(f"### {_words(kind)}\n\n{_prose(definition)}")
                parts.append(_table(definition, made["$defs"]))
            elif definition.get("type") == "object":
                parts.append(f"### {_words(kind)}\n\n{_prose(definition)} It has no keys: write `{{}}`.")
    return "\n\n".join(parts).rstrip() + "\n"


def _order(made: dict[str, Any]) -> list[str]:
    """Definitions in order of first use."""
    order: dict[str, None] = {}

    def walk(node: Any) -> None:
        for reference in _references(node):
            if reference not in order:
                order[reference] = None
                walk(made["$defs"][reference])

    walk({key: value for key, value in made.items() if key != "$defs"})
    return list(order)


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _table(definition: dict[str, Any], kinds: dict[str, Any]) -> str:
    required = set(definition.get("required", ()))
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in definition.get("properties", {}).items():
        default = "**required**" if key in required else _default(field)
        kind = kinds.get(str(field.get("$ref", "")).rpartition("/")[2], {})
        meaning = _prose(field) or _prose(kind)
        rows.append(f"| `{key}` | {_cell(_type(field))} | {_cell(default)} | {_cell(meaning)} |")
    return "\n".join(rows)


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if value is None or value in ({}, []) or isinstance(value, dict):
        return ""
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        kind = _words(str(field["$ref"]).rpartition("/")[2])
        return f"[{kind}](#{kind.lower().replace(' ', '-')})"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if field.get("type") == "array":
        item = _type(field.get("items", {}))
        return f"list, {item}" if item.startswith("like") else f"list of {item}"
    if field.get("type") == "object":
        named = list(field.get("patternProperties", {}).values())
        inner = named[0] if named else field.get("additionalProperties")
        return f"name → {_type(inner)}" if isinstance(inner, dict) else "mapping"
    if field.get("examples"):
        return f"like `{field['examples'][0]}`"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    return words.get(str(field.get("type")), "any value")


def _words(kind: str) -> str:
    """`KafkaSource` as `Kafka source`."""
    spaced = "".join(
        f" {letter.lower()}" if letter.isupper() and index else letter for index, letter in enumerate(kind)
    )
    return spaced.strip().replace(" override", "")


def _prose(definition: dict[str, Any]) -> str:
    return " ".join(str(definition.get("description", "")).split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
