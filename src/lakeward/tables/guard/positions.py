"""Checks before expiry whether every stream's position is still on main: expiry would erase the evidence.

A position whose snapshot is expired is fine only if an expiry after this same check removed it; the ledger records the
positions that an expiry found on main.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from lakeward.connectors.commit_protocol import position
from lakeward.connectors.commit_protocol.ancestry import Finding, Link, walk
from lakeward.connectors.delta import log
from lakeward.platform.errors import Blocked
from lakeward.platform.text import word
from lakeward.registry import events, generations, streams
from lakeward.registry.streams import Block
from lakeward.spec.sql.statements import call_name, quote_text
from lakeward.tables.facts import TableFacts


@dataclass(frozen=True)
class OffMain:
    """A position that blocks expiry.

    Attributes:
        reason: the reason code the stream is blocked with.
        elsewhere: the table that the stream lands in, if it is another one: then nothing is wrong with the stream.
    """

    stream: str
    reason: str
    what: str
    why: str
    next: str
    elsewhere: str = ""

    @property
    def sentence(self) -> str:
        """One line for a plan."""
        return f"{self.what} ({self.why})"

    def document(self) -> Block:
        """The argument of `registry.streams.block`."""
        return {"reason": self.reason, "what": self.what, "why": self.why, "next": self.next}


def off_main(facts: TableFacts, checked: Mapping[str, int]) -> list[OffMain]:
    """The positions that are not on main's ancestry.

    Args:
        facts: the table now.
        checked: stream -> the snapshot of its position that an earlier expiry of Lakeward found on main.
    """
    known = facts.by_id()

    def look_up(snapshot_id: int) -> Link | None:
        found = known.get(snapshot_id)
        return None if found is None else Link(found.id, found.sequence, found.parent, found.operation)

    problems = []
    for stream in facts.streams:
        try:
            held = position.parse(
                facts.properties[position.key(stream)], stream, facts.table, position.KeptIn.of_format(facts.format)
            )
        except Blocked as error:
            problems.append(OffMain(stream, error.reason, error.what, error.why, error.next))
            continue
        if held.snapshot is None:
            continue
        if facts.format == "delta":
            finding = log.walk(facts.delta_folder, facts.sequence, held.snapshot).finding
            # Delta expires its log by itself: a missing version is no evidence.
            finding = Finding.MET if finding is Finding.EXPIRED else finding
        else:
            finding = walk(facts.snapshot_id, look_up, held.snapshot, held.snapshot_seq).finding
        if finding is Finding.MET or (finding is Finding.EXPIRED and checked.get(stream) == held.snapshot):
            continue
        problems.append(_problem(facts, stream, held, finding))
    return problems


def on_main(facts: TableFacts) -> dict[str, int]:
    """Stream -> the snapshot of its position: what an expiry records as checked."""
    found = {}
    for stream in facts.streams:
        held = position.parse(
            facts.properties[position.key(stream)], stream, facts.table, position.KeptIn.of_format(facts.format)
        )
        if held.snapshot is not None:
            found[stream] = held.snapshot
    return found


def of_copies(connection: Connection, facts: TableFacts, problems: Iterable[OffMain]) -> list[OffMain]:
    """The problems; those of streams that land in another table are marked (`elsewhere`).

    A copy of a table's metadata (`register_table`, a clone, an older table of the stream) has the positions of the
    streams that land in the original. They still stop the expiry of an Iceberg table: a rollback of the stream to an
    older generation may lead it back here. VACUUM removes no commit from a Delta log, so there they stop nothing.
    """
    found = []
    for problem in problems:
        tables = lands_in(connection, problem.stream)
        if not tables or facts.table in tables:
            found.append(problem)
        elif facts.format != "delta":
            other = ", ".join(sorted(tables))
            what = f"{facts.table} has a position of stream {problem.stream}, which lands in {other}"
            why = f"{problem.why}; if it is a copy: {without_position(facts.table, facts.catalog, problem.stream)}"
            found.append(replace(problem, what=what, why=why, elsewhere=other))
    return found


def without_position(table: str, catalog: str, stream: str) -> str:
    """The command that removes the position of a stream from an Iceberg table which is a copy of the stream's own."""
    unset = f"ALTER TABLE {call_name(table, catalog)} UNSET TBLPROPERTIES ({quote_text(position.key(stream))})"
    return f"lakeward sql --write {word(unset)}"


def lands_in(connection: Connection, stream: str) -> set[str]:
    """The tables of a stream's running and newest generation; empty if they are not known."""
    known = streams.find(connection, stream)
    if known is None:
        return set()
    each = (generations.get(connection, stream, known.generation), generations.latest(connection).get(stream))
    found: set[str] = set()
    for generation in each:
        sinks = generation.spec.get("sink") if generation is not None else None
        named = {sink.get("table") for sink in sinks.values() if isinstance(sink, dict)} if sinks else set()
        if not named or None in named:
            return set()
        found |= {str(table) for table in named}
    return found


def block_streams(connection: Connection, problems: Iterable[OffMain]) -> None:
    """Block the streams that land in the table until a person acts; recorded once, not at every observation."""
    for problem in problems:
        known = streams.find(connection, problem.stream)
        if known is not None and not known.blocked and not problem.elsewhere:
            streams.block(connection, problem.stream, problem.document())
            events.record(connection, "stream", problem.stream, "blocked", problem.sentence, reason=problem.reason)


def _problem(facts: TableFacts, stream: str, held: position.Position, finding: Finding) -> OffMain:
    words = {
        Finding.ROLLED_BACK: "main was rolled back behind it",
        Finding.REPLACED: "the table was replaced after it",
        Finding.EXPIRED: "it was expired, but not by Lakeward, so whether main contained it is unknown",
    }
    reasons = {
        Finding.ROLLED_BACK: "rolled-back",
        Finding.REPLACED: "table-replaced",
        Finding.EXPIRED: "expired-unseen",
    }
    return OffMain(
        stream,
        reasons[finding],
        f"Rows of stream {stream} may be missing from {facts.table}: {words[finding]}",
        f"position seq {held.seq} is snapshot {held.snapshot} (sequence {held.snapshot_seq}), "
        f"main's head is {facts.snapshot_id} (sequence {facts.sequence})",
        f"lakeward streams audit {stream}   shows whether rows are missing; if none is, then: "
        f"lakeward streams start {stream}",
    )
