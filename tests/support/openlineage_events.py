"""OpenLineage events as JSON, validated by the specification's schemas and by those of Lakeward's own facets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
FOLDERS = (Path(__file__).with_name("openlineage"), ROOT / "docs" / "reference" / "openlineage")


@cache
def _schemas() -> Registry[Any]:
    documents = [json.loads(file.read_text()) for folder in FOLDERS for file in sorted(folder.glob("*.json"))]
    resources = [Resource.from_contents(document) for document in documents]
    return resources @ Registry()


def validated(event: RunEvent | str) -> dict[str, Any]:
    """The event as JSON.

    Raises:
        ValidationError: the event, or one of its facets, is not as its schema says.
    """
    document: dict[str, Any] = json.loads(event if isinstance(event, str) else Serde.to_json(event))
    _check(document, "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent")
    for facet in _facets(document):
        _check(facet, facet["_schemaURL"])
    return document


def _check(document: object, reference: str) -> None:
    validator = Draft202012Validator(
        {"$ref": reference}, registry=_schemas(), format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    validator.validate(document)


def _facets(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    parts = [document["run"], document["job"], *document.get("inputs", ()), *document.get("outputs", ())]
    for part in parts:
        for name in ("facets", "inputFacets", "outputFacets"):
            yield from (part.get(name) or {}).values()
