"""`streams state`: state store of a stream, from its checkpoint and its newest progress report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeward.cli.context import state
from lakeward.cli.streams.group import Stream, app
from lakeward.platform.errors import SpecError
from lakeward.platform.text import count, size

if TYPE_CHECKING:
    from lakeward.engine.checkpoint.state_store import Store
    from lakeward.registry.observations import StateOperator

MOST = 1000


@app.command("state")
def show(
    stream: Stream,
    rows: Annotated[int, typer.Option(min=0, max=MOST, help="how many rows of each store are shown")] = 0,
) -> None:
    """Show the state store of a stream, running or not. Read only; starts its own Spark."""
    from lakeward.engine import analysis
    from lakeward.engine.checkpoint import files, state_store
    from lakeward.registry import generations, observations, streams

    with state().registry() as connection:
        row = streams.get(connection, stream)
        generation = generations.named(connection, stream, row.generation)
        seen = observations.latest(connection).get(stream)
    folder = state().runtime.checkpoint_of(generation.checkpoint)
    if "://" in folder and not folder.startswith("file:"):
        raise SpecError(
            f"Cannot show the state of stream {stream} yet",
            why=f"its checkpoint is not on the file system of this machine: {folder}",
            next=f"lakeward streams status {stream}   has its rows and bytes",
            code="LW-1237",
        )
    with analysis.session() as spark:
        stores = state_store.read(spark, folder, rows)
        conf = files.read(files.files_of(spark, folder), folder).conf if stores else {}
    reported = (seen.progress or {}).get("stateOperators") if seen is not None else None
    data = document(stream, folder, stores, state_store.provider(conf), reported or [], state_store.frozen(conf))
    state().output.either(data, text(data))


def document(
    stream: str,
    folder: str,
    stores: list[Store],
    provider: str | None,
    reported: list[StateOperator],
    frozen: Mapping[str, str],
) -> dict[str, Any]:
    """The JSON: one entry for each store. Rows and bytes are the operator's own figures, of its newest report.

    Args:
        frozen: options that the checkpoint has frozen, independent of the spec.
    """
    shown = []
    for store in stores:
        progress = reported[store.operator] if store.operator < len(reported) else {}
        figures = {"rows": progress.get("numRowsTotal"), "memory_bytes": progress.get("memoryUsedBytes")}
        shown.append({**asdict(store), "provider": provider, **figures})
    return {"stream": stream, "checkpoint": folder, "stateful": bool(stores), "frozen": dict(frozen), "stores": shown}


def text(data: dict[str, Any]) -> str:
    """For people: a store a paragraph."""
    if not data["stateful"]:
        return f"{data['stream']} keeps no state: every batch is independent ({data['checkpoint']})"
    lines = []
    for store in data["stores"]:
        what = f"operator {store['operator']} {store['name']}, {store['provider'] or 'provider not known'}"
        if store["variable"]:
            what += f", {store['kind']} {store['variable']}{', with a time to live' if store['ttl'] else ''}"
        elif store["store"] != "default":
            what += f", {store['store']}"
        lines.append(
            f"{what}: batches {store['from_batch']} to {store['to_batch']}, {count(store['partitions'], 'part')}"
        )
        if store["rows"] is not None:
            lines.append(f"  {count(store['rows'], 'row')} of the operator, {size(store['memory_bytes'])} in memory")
        for word in ("keys", "values"):
            columns = ", ".join(f"{name} {kind}" for name, kind in store[word].items())
            lines += [f"  {word}  {columns}"] if columns else []
        lines += [f"  {json.dumps(row, ensure_ascii=False)}" for row in store["sample"]]
        lines += [f"  cannot be read: {store['problem']}"] if store["problem"] else []
    lines += ["frozen in the checkpoint; another value in the spec takes effect after reset, or under a new id:"]
    return "\n".join([*lines, *(f"  {name} = {value}" for name, value in data["frozen"].items())])
