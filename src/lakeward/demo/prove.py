"""Proof of each stream of the demo: compares the topic, read back, with the rows in the stream's sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakeward.connectors.kafka.position import parse as parse_offsets
from lakeward.demo import broker
from lakeward.demo.broker import Message, Position
from lakeward.demo.lake import DemoLake
from lakeward.demo.oracle import (
    BatchRange,
    WindowVerdict,
    account,
    compare_windows,
    contiguous,
    decode,
    events_of,
    freshness,
    p99,
)
from lakeward.demo.windows import Event, recompute
from lakeward.platform.errors import expect
from lakeward.registry.batches import Batch
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.ddl import ddl_columns

WINDOW_MS = 3_600_000
ALERT_ABOVE_MIN = 120.0


@dataclass(frozen=True)
class Proof:
    """The oracle's result for one stream; `wrong` lists every failed claim."""

    produced: int
    landed: int
    quarantined: int
    late_dropped: int | None
    missing: int | None
    duplicates: int | None
    mismatched_windows: int | None
    p99_freshness_s: float | None
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Topic:
    """The present records of a topic, by partition and rising offset."""

    name: str
    lines: Mapping[int, Sequence[Message]]

    @classmethod
    def read(cls, bootstrap: str, name: str) -> Topic:
        """Read the whole topic."""
        lines: dict[int, list[Message]] = {}
        for message in broker.read_topic(bootstrap, name):
            lines.setdefault(message.position.partition, []).append(message)
        for line in lines.values():
            line.sort(key=lambda message: message.position.offset)
        return cls(name, lines)

    @property
    def messages(self) -> Iterable[Message]:
        """All records."""
        return (message for line in self.lines.values() for message in line)


def ranges(recorded: Iterable[Batch], topic: str) -> list[BatchRange]:
    """Recorded batches (rows of the registry's `batches`) as ranges of one topic."""
    return [
        BatchRange(
            row.batch_id, offsets_of(row.start_offsets, topic), offsets_of(row.end_offsets, topic), row.committed_at
        )
        for row in recorded
    ]


def offsets_of(position: Mapping[str, str] | None, topic: str) -> dict[int, int]:
    """Partition -> offset of one topic, over all sources of a position."""
    merged: dict[int, int] = {}
    for text in (position or {}).values():
        merged |= parse_offsets(text).get(topic, {})
    return merged


def planned(checkpoint: Path, topic: str) -> dict[int, Mapping[int, int]]:
    """Batch number -> end offsets, from Spark's offset log, which is written before each batch and survives a kill.

    Spark retains the newest hundred.
    """
    ends_of: dict[int, Mapping[int, int]] = {}
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        sources = file.read_text().splitlines()[2:]
        ends: dict[int, int] = {}
        for line in sources:
            ends |= {int(part): int(at) for part, at in json.loads(line).get(topic, {}).items()}
        ends_of[int(file.name)] = ends
    return ends_of


def complete(
    recorded: Sequence[BatchRange], log: Mapping[int, Mapping[int, int]], low: Mapping[int, int]
) -> list[BatchRange]:
    """All batches in order: from the registry, and from the offset log those that a killed driver did not record."""
    known = {batch.batch_id for batch in recorded}
    result = list(recorded)
    for number in sorted(set(log) - known):
        before = next((batch.end for batch in recorded if batch.batch_id == number - 1), log.get(number - 1))
        if before is not None or number == 0:
            result.append(BatchRange(number, before if before is not None else low, log[number]))
    return contiguous(result, low)


class Prover:
    """The oracle applied to the running demo.

    Args:
        bootstrap: the broker.
        lake: the tables.
        source: the flights in the broker.
    """

    def __init__(self, bootstrap: str, lake: DemoLake, source: Topic) -> None:
        self._bootstrap = bootstrap
        self._lake = lake
        self._source = source
        self._low = {part: line[0].position.offset for part, line in source.lines.items() if line}
        self._all = [message.position for message in source.messages]

    def rows(self, spec: StreamSpec, batches: Sequence[BatchRange]) -> Proof:
        """A stream whose table has one row for every valid record."""
        quarantined = self._quarantined(spec)
        accounting = account(self._all, self._lake.positions(str(spec.sink.table), self._source.name), quarantined)
        wrong = [*self._wrong_quarantine(spec, quarantined)]
        if accounting.foreign:
            wrong.append(f"{spec.id}: {accounting.foreign} rows have positions that the broker does not have")
        if accounting.missing:
            wrong.append(
                f"{spec.id}: {len(accounting.missing)} records are missing, the first is {accounting.missing[0]}"
            )
        if accounting.duplicates:
            wrong.append(f"{spec.id}: {accounting.duplicates} records are stored more than once")
        return Proof(
            produced=accounting.produced,
            landed=accounting.landed,
            quarantined=accounting.quarantined,
            late_dropped=None,
            missing=len(accounting.missing),
            duplicates=accounting.duplicates,
            mismatched_windows=None,
            p99_freshness_s=p99(freshness(contiguous_or_recorded(batches), self._source.lines)),
            wrong=tuple(wrong),
        )

    def windows(self, spec: StreamSpec, batches: Sequence[BatchRange]) -> Proof:
        """The windowed stream: its table must equal the windows recomputed from the same batches."""
        columns = _columns(spec)
        watermark = expect(spec.source.watermark, "a watermark in the demo's own file")
        grouped = events_of(batches, self._source.lines, lambda message: _event(message, columns))
        expected = recompute(grouped, width_ms=WINDOW_MS, delay_ms=round(watermark.delay.seconds * 1000))
        quarantined = self._quarantined(spec)
        verdict: WindowVerdict = compare_windows(expected, self._lake.windows(str(spec.sink.table)))
        wrong = [*self._wrong_quarantine(spec, quarantined)]
        if verdict.mismatched:
            (start, origin), why = verdict.mismatched[0]
            when = datetime.fromtimestamp(start / 1000).astimezone().isoformat()
            wrong.append(
                f"{spec.id}: {len(verdict.mismatched)} of {verdict.expected} windows differ, the first is "
                f"{origin} {when}: {why}"
            )
        return Proof(
            produced=len(self._all),
            landed=verdict.found,
            quarantined=len(quarantined),
            late_dropped=expected.late_dropped,
            missing=None,
            duplicates=None,
            mismatched_windows=len(verdict.mismatched),
            p99_freshness_s=p99(freshness(batches, self._source.lines)),
            wrong=tuple(wrong),
        )

    def alerts(self, spec: StreamSpec) -> Proof:
        """The Kafka sink: every very late flight has an alert; repeats are allowed and counted."""
        columns = _columns(spec)
        sent_ms = {message.position: message.timestamp_ms for message in self._source.messages}
        expected = {
            message.position
            for message in self._source.messages
            if (row := decode(message.value, columns)) is not None
            and row["dep_delay"] is not None
            and row["dep_delay"] > ALERT_ABOVE_MIN
        }
        sink = expect(spec.sink.kafka, "a sink `kafka` in the demo's own file")
        alerts: Counter[Position] = Counter()
        waits: list[float] = []
        for alert in broker.read_topic(self._bootstrap, str(sink.topic)):
            content = json.loads(alert.value or b"{}")
            position = Position(content.get("_kafka_partition", -1), content.get("_kafka_offset", -1))
            alerts[position] += 1
            if position in sent_ms and alerts[position] == 1:
                waits.append(max(0.0, (alert.timestamp_ms - sent_ms[position]) / 1000))
        missing, foreign = expected - alerts.keys(), alerts.keys() - expected
        quarantined = self._quarantined(spec)
        wrong = [*self._wrong_quarantine(spec, quarantined)]
        if missing:
            wrong.append(f"{spec.id}: {len(missing)} alerts are missing")
        if foreign:
            wrong.append(f"{spec.id}: {len(foreign)} alerts are about flights below the limit")
        return Proof(
            produced=len(self._all),
            landed=len(alerts),
            quarantined=len(quarantined),
            late_dropped=None,
            missing=len(missing),
            duplicates=sum(alerts.values()) - len(alerts),
            mismatched_windows=None,
            p99_freshness_s=p99(waits),
            wrong=tuple(wrong),
        )

    def _quarantined(self, spec: StreamSpec) -> list[Position]:
        if spec.quarantine is None:
            return []
        return self._lake.positions(str(spec.quarantine.table), self._source.name, str(spec.id))

    def _wrong_quarantine(self, spec: StreamSpec, quarantined: Sequence[Position]) -> list[str]:
        """Failed claims about quarantine: it must have exactly the records that cannot be decoded, each once."""
        columns = _columns(spec)
        broken = {message.position for message in self._source.messages if decode(message.value, columns) is None}
        wrong = []
        if set(quarantined) != broken:
            wrong.append(
                f"{spec.id}: quarantine has {len(set(quarantined) - broken)} valid records "
                f"and lacks {len(broken - set(quarantined))} broken ones"
            )
        if len(quarantined) != len(set(quarantined)):
            wrong.append(f"{spec.id}: quarantine has {len(quarantined) - len(set(quarantined))} records twice")
        return wrong


def contiguous_or_recorded(batches: Sequence[BatchRange]) -> list[BatchRange]:
    """Recorded batches by number, for measuring freshness; batches that a killed driver did not record are missing."""
    return sorted(batches, key=lambda batch: batch.batch_id)


def _columns(spec: StreamSpec) -> dict[str, str]:
    decoder = expect(spec.source.decode, "`decode` in the demo's own files")
    ddl = expect(decoder.ddl, "`decode: {json: ..}` in the demo's own files")
    return {name: kind.upper() for name, kind in ddl_columns(str(ddl)).items()}


def _event(message: Message, columns: Mapping[str, str]) -> Event | None:
    row = decode(message.value, columns)
    if row is None or row["time_hour"] is None:
        return None
    return Event(round(row["time_hour"].timestamp() * 1000), row["origin"], row["dep_delay"])
