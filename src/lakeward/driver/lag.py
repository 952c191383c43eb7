"""How far each stream is behind its source, measured at the source: also right while the query stands still."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.errors import LakewardError

_log = structlog.get_logger(__name__)

EVERY_S = 5.0
HISTORY = 720
WINDOW_S = 60.0
"""Rates are taken over the last minute."""
RETENTION_EVERY_S, WRITTEN_EVERY_S = 300.0, 60.0
"""How often a topic's settings are read, and how often one waiting record may be fetched to see how old it is."""


@dataclass
class Meter:
    """Lag of one source in records and in seconds.

    In seconds: how long ago the source ended where the stream is now, by earlier measurements of the same source.
    """

    _ends: deque[tuple[float, Offsets]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    _lags: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def measure(self, at: str, ends: Offsets, now: float) -> tuple[int, float | None]:
        """(records, seconds); seconds is None when the source was never seen that short."""
        self._ends.append((now, ends))
        behind = position.behind(at, ends)
        self._lags.append((now, behind))
        if behind == 0:
            return 0, 0.0
        for moment, earlier in reversed(self._ends):
            if position.behind(at, earlier) == 0:
                return behind, round(now - moment, 1)
        return behind, None

    def rates(self) -> tuple[float | None, float | None]:
        """(records that come, records by which the lag grows) a second, over the last minute; None when too young."""
        ends = [(moment, sum(sum(parts.values()) for parts in each.values())) for moment, each in self._ends]
        return _slope(ends), _slope(list(self._lags))


def _slope(points: list[tuple[float, int]]) -> float | None:
    if not points:
        return None
    last = points[-1]
    first = next(point for point in points if last[0] - point[0] <= WINDOW_S)
    if last[0] - first[0] < WINDOW_S / 4:
        return None
    return round((last[1] - first[1]) / (last[0] - first[0]), 2)


@dataclass(frozen=True)
class Watched:
    """One source of one running stream: where it is read, and up to which offsets it is landed."""

    stream: str
    source: str
    cluster: Cluster
    topics: tuple[str, ...]
    at: str


@dataclass
class Broker:
    """What was asked of one cluster besides its ends, and when it is asked again."""

    cluster: Cluster
    _kept: dict[str, float | None] = field(default_factory=dict)
    _kept_until: float = 0.0

    def retention(self, topics: Sequence[str]) -> float | None:
        """The shortest time one of the topics keeps a record; None for ever."""
        if time.monotonic() >= self._kept_until or not set(topics) <= self._kept.keys():
            self._kept |= dict.fromkeys(topics)  # topics nobody tells about: not asked again and again
            self._kept |= broker.retentions(self.cluster, sorted(self._kept))
            self._kept_until = time.monotonic() + RETENTION_EVERY_S
        return min((kept for topic in topics if (kept := self._kept[topic]) is not None), default=None)


@dataclass
class _Oldest:
    """When the oldest waiting record of a stream was written, fetched now and then."""

    written: float | None = None
    until: float = 0.0


class LagThread:
    """Measures every few seconds; leaves the sums with `note` and the rest with `watch`."""

    def __init__(
        self,
        watched: Callable[[], Sequence[Watched]],
        note: Callable[[str, int, float | None], None],
        watch: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._watched = watched
        self._note = note
        self._watch = watch
        self._meters: dict[tuple[str, str], Meter] = {}
        self._brokers: dict[Cluster, Broker] = {}
        self._oldest: dict[tuple[str, str], _Oldest] = {}
        self._said = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def close(self) -> None:
        """Stop; does not wait for a broker that is away."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.once()
            except LakewardError:
                continue  # the streams say themselves that their broker is away, or that it refuses them
            except Exception as error:  # noqa: BLE001  # named boundary: measuring must not end for one odd answer
                if str(error) != self._said:
                    _log.exception("lag cannot be measured")
                self._said = str(error)
            else:
                self._said = ""

    def once(self) -> None:
        """Measure all streams now, each broker asked once. A broker that is away keeps the others' from nothing."""
        watched = list(self._watched())
        down: LakewardError | None = None
        for cluster in sorted({each.cluster for each in watched}, key=lambda each: each.connection):
            mine = [each for each in watched if each.cluster == cluster]
            try:
                self._measure(self._brokers.setdefault(cluster, Broker(cluster)), mine)
            except LakewardError as error:
                down = error
        if down is not None:
            raise down

    def _measure(self, asked: Broker, watched: Sequence[Watched]) -> None:
        ends = broker.end_offsets(asked.cluster, sorted({topic for each in watched for topic in each.topics}))
        now = time.monotonic()
        by_stream: dict[str, list[Source]] = {}
        for each in watched:
            part = {topic: ends[topic] for topic in each.topics if topic in ends}
            meter = self._meters.setdefault((each.stream, each.source), Meter())
            records, seconds = meter.measure(each.at, part, now)
            found = Source(each, part, records, seconds, *meter.rates(), asked.retention(each.topics))
            by_stream.setdefault(each.stream, []).append(found)
        for stream, sources in by_stream.items():
            known = [each.seconds for each in sources if each.seconds is not None]
            longest = max(known) if len(known) == len(sources) else None
            self._note(stream, sum(each.records for each in sources), longest)
            self._watch(stream, document(sources, self._waiting(sources)))

    def _waiting(self, sources: Sequence[Source]) -> float | None:
        """When the oldest record that waits was written, seconds since 1970; None when nothing waits or nobody says.

        A source that was seen when it ended where the stream is now tells it by that; else one record is fetched.
        """
        found = []
        for each in sources:
            if not each.records:
                continue
            if each.seconds is not None:
                found.append(time.time() - each.seconds)
                continue
            kept = self._oldest.setdefault((each.watched.stream, each.watched.source), _Oldest())
            if time.monotonic() >= kept.until:
                times = broker.written_at(each.watched.cluster, each.waiting())
                kept.written, kept.until = min(times.values(), default=None), time.monotonic() + WRITTEN_EVERY_S
            if kept.written is not None:
                found.append(kept.written)
        return min(found, default=None)


@dataclass(frozen=True)
class Source:
    """One source as it was measured; `retention_s` None: it keeps for ever."""

    watched: Watched
    ends: Offsets
    records: int
    seconds: float | None
    arriving: float | None
    growing: float | None
    retention_s: float | None

    def waiting(self) -> Offsets:
        """The first offset that waits, of the partitions where one does."""
        landed = position.parse(self.watched.at)
        firsts = {t: {p: landed.get(t, {}).get(p, 0) for p in parts} for t, parts in self.ends.items()}
        return {t: {p: o for p, o in parts.items() if o < self.ends[t][p]} for t, parts in firsts.items()}


def document(sources: Sequence[Source], oldest: float | None) -> dict[str, Any]:
    """As `registry.observations` describes it."""
    partitions = []
    for each in sources:
        landed = position.parse(each.watched.at)
        for topic, ends in sorted(each.ends.items()):
            for partition, end in sorted(ends.items()):
                at = landed.get(topic, {}).get(partition)
                partitions.append(
                    {
                        "source": each.watched.source,
                        "topic": topic,
                        "partition": partition,
                        "position": at,
                        "end": end,
                        "lag_records": max(0, end - (at or 0)),
                    }
                )
    return {
        "partitions": partitions,
        "oldest": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
        "retention_s": min((s.retention_s for s in sources if s.retention_s is not None), default=None),
        "arriving_per_second": _sum([each.arriving for each in sources]),
        "lag_per_second": _sum([each.growing for each in sources]),
    }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return round(sum(known), 2) if known and len(known) == len(values) else None
