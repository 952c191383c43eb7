"""Snapshot pins of streams that read a table incrementally: expiry must keep what they have not read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from lakeward.connectors.delta.source import history
from lakeward.connectors.iceberg.source import position
from lakeward.platform.boundary import Failure, attempt
from lakeward.registry import batches, generations, streams
from lakeward.tables.facts import Snapshot, TableFacts
from lakeward.tables.plan.model import SnapshotPin

_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+")


@dataclass(frozen=True)
class Reading:
    """One source of one deployed stream. `at`: the landed offset as recorded; None before its first batch, and when its
    record is older than the retention. `format`: the format of the table that is read.
    """

    stream: str
    source: str
    at: str | None
    format: str = "iceberg"


def registered(connection: Connection) -> dict[str, tuple[Reading, ...]]:
    """Table -> the streams that read it, by running and pending generations. A stopped stream counts until it is
    retired: it resumes where it stopped.

    A stream whose spec cannot be read counts as a reader, from the beginning, of every table that its spec names.
    """
    known = streams.all_streams(connection)
    specs = {name: [each.spec] for name, each in generations.latest(connection).items()}
    running = generations.of_streams(connection, {each.id: each.generation for each in known})
    found: dict[str, list[Reading]] = {}
    for each in known:
        documents = [*specs.get(each.id, []), running[each.id].spec] if each.id in running else specs.get(each.id, [])
        tables: dict[tuple[str, str, str], None] = {}
        unread: set[str] = set()
        for document in documents:
            said = attempt(f"sources of stream {each.id}", partial(_listed, document))
            if isinstance(said, Failure):
                unread |= _named(document)
            else:
                tables |= dict.fromkeys(said)
        for table in sorted(unread):
            found.setdefault(table, []).append(Reading(each.id, "unreadable", None))
        if not tables:
            continue
        newest = batches.newest(connection, each.id, 1)
        ends: Mapping[str, str] = (newest[0].end_offsets or {}) if newest else {}
        for source, table, format_ in tables:
            found.setdefault(table, []).append(Reading(each.id, source, ends.get(source), format_))
    return {table: tuple(readings) for table, readings in found.items()}


def pins(facts: TableFacts, readings: Iterable[Reading]) -> list[SnapshotPin]:
    """Pins the snapshot each reader resumes from."""
    chain = facts.main()
    found = []
    for reading in readings:
        resume = resume_snapshot(reading, chain)
        if resume is None:
            continue
        at = "it has landed no batch yet" if reading.at is None else f"it has read up to snapshot {resume.id}"
        why = f"{at}; it resumes there until it is retired"
        found.append(SnapshotPin(f"stream {reading.stream}", why, resume.at, "reader", reading.stream))
    return found


def resume_snapshot(reading: Reading, chain: Sequence[Snapshot]) -> Snapshot | None:
    """The snapshot of main a reader resumes from; the oldest for one that has read nothing; None if its own is
    expired."""
    if not chain:
        return None
    if reading.format == "delta":
        return _in_log(reading, chain)
    try:
        at = None if reading.at is None else position.parse(reading.at)
    except ValueError:  # an offset of another source, before a change of the spec
        at = None
    if at is None or at.snapshot is None:
        return chain[-1]
    return next((each for each in chain if each.id == at.snapshot), None)


def _in_log(reading: Reading, chain: Sequence[Snapshot]) -> Snapshot | None:
    """Delta's offset names the commit being read: everything in the table at that version, and later, is needed."""
    at = None if reading.at is None else history.parse(reading.at)
    if at is None:
        return chain[-1]
    if at.version > chain[0].id:  # everything is read
        return chain[0]
    return next((each for each in chain if each.id == at.version), None)


def documents(facts: TableFacts, readings: Iterable[Reading]) -> list[dict[str, Any]]:
    """The `readers` of `tables health -o json`."""
    chain = facts.main()
    found = []
    for reading in readings:
        resume = resume_snapshot(reading, chain)
        found.append(
            {
                "stream": reading.stream,
                "source": reading.source,
                "snapshot_id": None if resume is None or reading.at is None else resume.id,
                "committed_at": None if resume is None else resume.at,
                "begun": reading.at is not None,
                "lost": resume is None and bool(chain),
            }
        )
    return found


def _listed(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return list(_tables(document))


def _named(document: object) -> set[str]:
    """Everything in an unreadable spec that may be the name of a table."""
    return set(_NAME.findall(json.dumps(document, default=str)))


def _tables(document: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    for name, source in (document.get("sources") or {}).items():
        for format_ in ("iceberg", "delta"):
            table = (source.get(format_) or {}).get("table")
            if table:
                yield str(name), str(table), format_
