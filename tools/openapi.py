"""Write docs/reference/openapi.json: the API of the page, with the schema of each document.

`python tools/openapi.py` writes it; `--check` fails if it is not current. The documents are TypedDicts of `typing`,
which pydantic reads from Python 3.12 on only, so they are made anew here as those of `typing_extensions`.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import typing_extensions
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from lakeward.web.app import DOCUMENTS, routes
from lakeward.web.errors import ErrorBody

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "openapi.json"
REF = "#/components/schemas/{model}"
DESCRIPTION = """Streams, tables, checks and the audit log, as the page inside Airflow shows them.

Airflow serves it below `/lakeward`, with its own login: a token of `/auth/token`, or the cookie of its UI. An integer
that JavaScript cannot hold exactly, e.g. a snapshot id, is text. Times are RFC 3339 in UTC; ages are relative to `now`.
An operation is started by Airflow's own API: a run of the stream's Dag with these parameters and a `comment`."""


class Copies:
    """The same TypedDicts in the form that pydantic reads."""

    def __init__(self) -> None:
        self._known: dict[type, Any] = {}

    def of(self, kind: Any) -> Any:
        """A type with all TypedDicts in it replaced."""
        if typing.is_typeddict(kind):
            return self._copied(kind)
        arguments = typing.get_args(kind)
        if not arguments:
            return kind
        origin = typing.get_origin(kind)
        replaced = tuple(item if isinstance(item, str) else self.of(item) for item in arguments)
        if origin in (typing.Union, types.UnionType):
            return reduce(or_, replaced)
        if origin is typing.Literal:
            return kind
        return origin[replaced if len(replaced) > 1 else replaced[0]]

    def _copied(self, kind: Any) -> Any:
        if kind not in self._known:
            fields = {}
            for name, hint in typing.get_type_hints(kind, include_extras=True).items():
                # Annotations that are text hide `NotRequired` from `__required_keys__`.
                absent = typing.get_origin(hint) is typing.NotRequired
                item = self.of(typing.get_args(hint)[0] if absent else hint)
                needed = name in kind.__required_keys__ and not absent
                fields[name] = item if needed else typing_extensions.NotRequired[item]
            made = typing_extensions.TypedDict(kind.__name__, fields)
            made.__doc__ = (kind.__doc__ or "").split("\n\n")[0]
            self._known[kind] = made
        return self._known[kind]


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    app = FastAPI(title="Lakeward", version="1", description=DESCRIPTION)
    app.include_router(routes)
    made = app.openapi()
    copies = Copies()
    adapters = {name: TypeAdapter(copies.of(kind)) for name, kind in {**DOCUMENTS, "error": ErrorBody}.items()}
    inputs = [(name, "serialization", adapter) for name, adapter in adapters.items()]
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=REF)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_as_sent(definitions.get("$defs", {})))
    error = {"application/json": {"schema": _as_sent(found["error", "serialization"])}}
    for route in routes.routes:
        if not isinstance(route, APIRoute):
            continue
        for method in route.methods:
            operation = made["paths"][route.path][method.lower()]
            body = {"application/json": {"schema": _as_sent(found[route.name, "serialization"])}}
            operation["operationId"] = route.name
            operation["responses"] = {
                "200": {"description": "The document", "content": body},
                "401": {"description": "Not logged in"},
                "403": {"description": "Airflow does not permit it"},
                "default": {"description": "What failed, why, and the next command", "content": error},
            }
    return made


def _as_sent(schema: Any) -> Any:
    """A schema with integers that may be text: those that JavaScript cannot hold."""
    if isinstance(schema, dict):
        plain = {key: _as_sent(value) for key, value in schema.items()}
        return {**plain, "type": ["integer", "string"]} if plain.get("type") == "integer" else plain
    return [_as_sent(item) for item in schema] if isinstance(schema, list) else schema


def main() -> None:
    """Write or check the file."""
    text = json.dumps(document(), indent=1, sort_keys=True) + "\n"
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} is not current; run: make schemas")


if __name__ == "__main__":
    main()
