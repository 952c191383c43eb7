"""JSON schemas of suites are judged before a row is read."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.quality.arguments import json_schemas
from lakeward.quality.arguments.expectation import settle

OLD = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objekt"}, "json_schema.type: this is not a JSON schema: 'objekt' is not valid"),
        ({"properties": {"a": {"type": 5}}}, "json_schema.properties.a.type: this is not a JSON schema: 5"),
        ({"minimum": "a"}, "json_schema.minimum: this is not a JSON schema: 'a' is not of type 'number'"),
        ({"pattern": "("}, "json_schema.pattern: this is not a JSON schema: '(' is not a 'regex'"),
        ({"$schema": 5}, "json_schema: this is not a JSON schema:"),
        ({"$ref": "#/definitions/none"}, "json_schema.$ref: #/definitions/none is not in the schema"),
        ({"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a~1b": {}}}, "#/$defs/a~1b is not in the schema"),
    ],
)
def test_a_schema_that_would_be_an_error_of_every_row_is_refused(schema: dict[str, Any], words: str) -> None:
    (found,) = settle(json_schemas.KIND, {"column": "j", "json_schema": schema}, None).faults
    assert words in found.text()
    assert "object" in found.valid or "objekt" not in words


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "required": ["a"], "properties": {"id": {"type": "string"}, "$ref": {"type": "string"}}},
        {"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": {"$ref": "#/allOf/0"}}, "allOf": [{}]},
        {"$ref": "#"},
        {"$schema": OLD, "minimum": 1, "exclusiveMinimum": True},
        {"enum": [{"$ref": "#/x"}]},
        {"$defs": {"x": {"$id": "urn:x", "$defs": {"y": {}}, "items": {"$ref": "#/$defs/y"}}}},
    ],
)
def test_a_schema_that_can_be_meant_passes(schema: dict[str, Any]) -> None:
    assert list(json_schemas.faults(schema)) == []
