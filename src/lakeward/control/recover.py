"""Recover: a new checkpoint for a stream, beginning where its table's position ends.

For a checkpoint that is gone, damaged, an older copy or another query's. Right only where the position alone says
where to go on: sources whose offsets are self-contained (Kafka) and transforms that keep no state. Everything is
guarded by the table: the position is marked by compare-and-set, so a driver that still lands the stream is fenced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from lakeward.connectors.iceberg import catalog, position, pytable
from lakeward.connectors.iceberg.offsets import canonical_json
from lakeward.connectors.iceberg.position import NO_DATA, Position
from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka import position as kafka_position
from lakeward.control.look import Connect
from lakeward.errors import Refused
from lakeward.registry import changes, events, generations, streams
from lakeward.registry.generations import Generation
from lakeward.runtime import CATALOG, Runtime
from lakeward.spec.stream import StreamSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True)
class Recovery:
    """What a recovery does: the position goes on from `end` under a new checkpoint."""

    stream: str
    table: str
    seq: int
    end: dict[str, str]
    checkpoint: str
    generation: int

    @property
    def words(self) -> str:
        """In one sentence."""
        where = ", ".join(f"{source} {end}" for source, end in sorted(self.end.items()))
        return f"goes on after seq {self.seq - 1} of {self.table}, at {where}, with checkpoint {self.checkpoint}"


def recover(
    connect: Connect, runtime: Runtime, stream: str, *, author: str, comment: str = "", dry_run: bool = False
) -> Recovery:
    """Give a stream that does not run a new checkpoint at its table's position.

    Raises:
        SpecError: there is no such stream.
        Refused: it runs, has a waiting generation, keeps state, or its table knows nothing of it.
        Fenced: a driver landed a batch of it meanwhile; nothing was changed.
        DependencyDown: broker, catalog or registry cannot be reached.
    """
    with connect() as connection:
        row = streams.get(connection, stream)
        if row.desired == "running" and row.blocked is None:
            raise Refused(
                f"Stream {stream} is not recovered while it is to run",
                why=f"it is {row.state}: {row.why}",
                next=f"lakeward streams stop {stream} --wait",
            )
        if row.pending_generation is not None:
            raise Refused(
                f"Stream {stream} has generation {row.pending_generation} waiting",
                why="a recovery keeps the spec it ran with",
                next="lakeward deploy   takes the waiting one, now that the stream is stopped",
            )
        kept = generations.get(connection, stream, row.generation)
        newest = generations.latest(connection).get(stream)
    if kept is None or newest is None:
        raise Refused(f"Stream {stream} has nothing to recover", why="it was never deployed", next="lakeward deploy")
    spec = StreamSpec.model_validate(kept.spec)
    table = _table(spec)
    lake = _lake(runtime)
    before = lake.load_table(table).properties.get(position.key(stream))
    if before is None:
        raise Refused(
            f"Stream {stream} has nothing to recover",
            why=f"{table} has no position of it: nothing was landed",
            next=f"lakeward streams start {stream}",
        )
    landed = position.parse(before, stream, table)
    end = _with_new_partitions(spec, runtime, landed)
    plan = Recovery(
        stream, table, landed.seq + 1, end, _next_checkpoint(newest.checkpoint, stream), newest.generation + 1
    )
    if dry_run:
        return plan
    marked = landed.model_copy(
        update={"seq": plan.seq, "query_id": "", "batch": -1, "end": end, "attempt": f"recover/{plan.seq}/{author}"}
    )
    pytable.write_position(lake, table, stream, marked, before)
    with connect() as connection:
        _accept(connection, row.driver, kept, plan, author, comment)
    return plan


def _table(spec: StreamSpec) -> str:
    """The table whose position says where to go on.

    Raises:
        Refused: there is none, or the position alone does not say it.
    """
    sink = spec.sink.iceberg
    if sink is None or sink.commit != "exact":
        raise Refused(
            f"Stream {spec.id} cannot be recovered",
            why=f"its sink ({spec.sink.connector}) keeps no position: only the checkpoint knew how far it was",
            next="put the checkpoint back from a copy",
        )
    if spec.lineage != "rows":
        raise Refused(
            f"Stream {spec.id} cannot be recovered",
            why="its transform keeps state (windows, aggregates), and state belongs to its checkpoint",
            next="put the checkpoint back from a copy, or land into a new table under a new id",
        )
    return str(sink.table)


def _with_new_partitions(spec: StreamSpec, runtime: Runtime, landed: Position) -> dict[str, str]:
    """The landed ends, and the beginning of partitions that appeared since: a new query must be told of each."""
    ends: dict[str, str] = {}
    for name, source in spec.sources.items():
        text = landed.end.get(str(name), NO_DATA)
        if source.kafka is None or text == NO_DATA:
            ends[str(name)] = text
            continue
        known = kafka_position.parse(text)
        bootstrap = broker.bootstrap_of(source.kafka.connection, runtime.kafka)
        first = broker.begin_offsets(bootstrap, sorted(known))
        whole = {topic: {**first.get(topic, {}), **parts} for topic, parts in known.items()}
        ends[str(name)] = canonical_json(kafka_position.render(whole))
    return ends


def _next_checkpoint(current: str, stream: str) -> str:
    """The next folder: `flights`, `flights.2`, `flights.3` ... The old one is left where it is."""
    folder, slash, name = current.rpartition("/")
    number = name.removeprefix(f"{stream}.")
    following = int(number) + 1 if number.isdigit() else 2
    return f"{folder}{slash}{stream}.{following}"


def _accept(connection: Connection, driver: str, kept: Generation, plan: Recovery, author: str, comment: str) -> None:
    generations.add(
        connection,
        stream=plan.stream,
        generation=plan.generation,
        spec=kept.spec,
        digest=kept.digest,
        sql=kept.sql,
        code=kept.code,
        versions=kept.versions,
        author=author,
        checkpoint=plan.checkpoint,
    )
    streams.accept(connection, plan.stream, generation=plan.generation, driver=driver)
    changes.record(
        connection, "stream", plan.stream, "recover", author=author, comment=comment, end=plan.end, seq=plan.seq
    )
    events.record(connection, "stream", plan.stream, "recover", f"{author} recovered it: {plan.words}")


def _lake(runtime: Runtime) -> Catalog:
    from pyiceberg.catalog import load_catalog

    return load_catalog(CATALOG, **catalog.pyiceberg_properties(runtime.lake, runtime.pgpass))
