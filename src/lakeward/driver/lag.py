"""Lag of each stream, measured at its sources: correct even while the query makes no progress.

The lag of a stream is the sum over its sources. If one of them cannot be measured, it is not known: what the others
have is a lower bound (`at_least`), and is never given as the whole.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

import structlog

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.connectors.kafka.position import Offsets
from lakeward.platform.boundary import Failure, attempt, failure_of
from lakeward.platform.errors import LakewardError
from lakeward.platform.text import rfc3339
from lakeward.registry.observations import AtLeast, Watch, WatchedPartition
from lakeward.spec.model.sources import Isolation

_log = structlog.get_logger(__name__)

EVERY_S = 5.0
HISTORY = 720
WINDOW_S = 60.0
"""Rates are taken over the last minute."""
RETENTION_EVERY_S, WRITTEN_EVERY_S = 300.0, 60.0
"""How often topic settings are read, and how often one unread record may be fetched for its age."""
STALE_S = 60.0
"""How long the last lag of a stream counts while a source cannot be measured. Afterwards it is not known."""


@dataclass
class Meter:
    """Lag of one source in records and in seconds.

    Seconds: how long ago the source's end was at the stream's present position, by earlier measurements.
    """

    _ends: deque[tuple[float, Offsets]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    _lags: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def measure(self, at: str, ends: Offsets, now: float) -> tuple[int, float | None]:
        """(records, seconds); seconds is None if no earlier measurement reaches back to the position."""
        if self._ends and _shrank(self._ends[-1][1], ends):  # other records: a topic that was created again
            self._ends.clear()
            self._lags.clear()
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
        """(arriving records, growth of the lag) per second, over the last minute; None with too few measurements."""
        ends = [(moment, sum(sum(parts.values()) for parts in offsets.values())) for moment, offsets in self._ends]
        return _slope(ends), _slope(list(self._lags))


def _shrank(before: Offsets, now: Offsets) -> bool:
    """Whether a partition ends before its earlier end."""
    return any(
        end < before.get(topic, {}).get(partition, 0)
        for topic, partitions in now.items()
        for partition, end in partitions.items()
    )


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
    """One source of one running stream: cluster, topics, the landed position, and the isolation level of its query.

    Its lag counts to the last stable offset where the query cannot read past it. `mirrored`: whether the position is
    copied to a consumer group. `unmeasured`: the stream's sources that a driver cannot measure -> why.
    """

    stream: str
    source: str
    cluster: Cluster
    topics: tuple[str, ...]
    at: str
    isolation: Isolation = "read_committed"
    mirrored: bool = False
    unmeasured: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Broker:
    """Topic settings of one cluster, cached."""

    cluster: Cluster
    _retentions: dict[str, float | None] = field(default_factory=dict)
    _retentions_until: float = 0.0

    def retention(self, topics: Sequence[str]) -> float | None:
        """The shortest retention of the topics in seconds; None if unlimited."""
        if time.monotonic() >= self._retentions_until or not set(topics) <= self._retentions.keys():
            self._retentions |= dict.fromkeys(topics)  # topics without an answer are cached too
            self._retentions |= broker.retentions(self.cluster, sorted(self._retentions))
            self._retentions_until = time.monotonic() + RETENTION_EVERY_S
        return min(
            (retained_s for topic in topics if (retained_s := self._retentions[topic]) is not None), default=None
        )


@dataclass
class _Oldest:
    """When the oldest unread record of a stream was written; fetched at an interval."""

    written: float | None = None
    until: float = 0.0


class LagThread:
    """Measures every few seconds; passes the sums to `note` and the details to `watch`.

    A lag that is not known is None, and never the one that was measured last: it is not known after `STALE_S` without
    an answer of one of the sources, and at once where a source is not the one that was landed from.

    Args:
        note: stream, records, seconds.
        measuring: called before each measurement; returns at once.
        clock: monotonic seconds.
        answer_s: how long a request to a broker may take.
    """

    def __init__(
        self,
        watched: Callable[[], Sequence[Watched]],
        note: Callable[[str, int | None, float | None], None],
        watch: Callable[[str, Watch], None],
        measuring: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        answer_s: float = broker.TIMEOUT_S,
    ) -> None:
        self._clock, self._answer_s = clock, answer_s
        self._measured: dict[tuple[str, str], float] = {}
        self._measuring = measuring
        self._watched = watched
        self._note = note
        self._watch = watch
        self._meters: dict[tuple[str, str], Meter] = {}
        self._brokers: dict[Cluster, Broker] = {}
        self._oldest: dict[tuple[str, str], _Oldest] = {}
        self._partial: set[str] = set()
        self._last_error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def close(self) -> None:
        """Stop; does not wait for a broker that is down."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.once()
            except LakewardError:
                continue  # the streams themselves report that their broker is down or refuses them
            except Exception as error:  # noqa: BLE001  # named boundary: one unexpected answer must not end the thread
                if str(error) != self._last_error:
                    _log.exception("lag measurement failed")
                self._last_error = str(error)
            else:
                self._last_error = ""

    def once(self) -> None:
        """Measure all streams now, with one request per broker and isolation level.

        A broker that is down does not affect the streams that do not read it.
        """
        self._measuring()
        watched = list(self._watched())
        found: dict[tuple[str, str], Measured] = {}
        down: LakewardError | None = None
        for cluster in sorted({target.cluster for target in watched}, key=lambda target: target.connection):
            of_cluster = [target for target in watched if target.cluster == cluster]
            item, measure = f"lag at {cluster.connection}", partial(self._measure, cluster, of_cluster)
            try:
                measured = attempt(item, measure, through=(LakewardError,))
            except LakewardError as error:  # not logged: the streams themselves report it
                down, measured = error, failure_of(item, error)
            if isinstance(measured, Failure):
                found |= {(target.stream, target.source): measured for target in of_cluster}
            else:
                found |= measured
        for stream in dict.fromkeys(target.stream for target in watched):
            self._tell(stream, [target for target in watched if target.stream == stream], found)
        if down is not None:
            raise down

    def _tell(self, stream: str, targets: Sequence[Watched], found: Mapping[tuple[str, str], Measured]) -> None:
        """Pass on the lag of one stream, unless a source did not answer just now: then the last lag still counts."""
        results = {target.source: found[stream, target.source] for target in targets}
        awaited = [name for name, result in results.items() if self._awaited((stream, name), result)]
        if awaited:
            return
        sources = [source for source in results.values() if isinstance(source, Source)]
        unmeasured = {name: _why(result) for name, result in results.items() if not isinstance(result, Source)}
        unmeasured |= {name: why for target in targets for name, why in target.unmeasured.items()}
        seconds = [source.seconds for source in sources if source.seconds is not None]
        if unmeasured:
            self._note(stream, None, None)
        else:
            longest = max(seconds) if len(seconds) == len(sources) else None
            self._note(stream, sum(source.records for source in sources), longest)
        if all(isinstance(result, Failure) for result in results.values()):
            if stream in self._partial:
                self._partial.discard(stream)
                self._watch(stream, {"at_least": None})
            return  # the last details stay, with their time
        (self._partial.add if unmeasured else self._partial.discard)(stream)
        oldest = min((source.oldest for source in sources if source.oldest is not None), default=None)
        self._watch(stream, document(sources, oldest, unmeasured))

    def _awaited(self, key: tuple[str, str], result: Measured) -> bool:
        """Whether a source did not answer, and has not been silent for long."""
        if not isinstance(result, Failure):
            self._measured[key] = self._clock()
            return False
        return self._clock() - self._measured.setdefault(key, self._clock()) < STALE_S

    def _measure(self, cluster: Cluster, watched: Sequence[Watched]) -> dict[tuple[str, str], Measured]:
        """The lag of each source of one cluster; None for one that is not what was landed from."""
        ends = {level: self._ends(cluster, level, watched) for level in {each.isolation for each in watched}}
        broker_client, now = self._brokers.setdefault(cluster, Broker(cluster)), self._clock()
        found: dict[tuple[str, str], Measured] = {}
        for target in watched:
            key, found_ends = (target.stream, target.source), ends[target.isolation]
            if position.replaced(target.at, found_ends, target.topics):
                found[key] = None
                continue
            part = {topic: found_ends[topic] for topic in target.topics}
            meter = self._meters.setdefault(key, Meter())
            records, seconds = meter.measure(target.at, part, now)
            source = Source(target, part, records, seconds, *meter.rates(), broker_client.retention(target.topics))
            found[key] = replace(source, oldest=self._waiting(source))
        return found

    def _ends(self, cluster: Cluster, isolation: Isolation, watched: Sequence[Watched]) -> Offsets:
        topics = sorted({topic for target in watched if target.isolation == isolation for topic in target.topics})
        return broker.end_offsets(cluster, topics, self._answer_s, isolation)

    def _waiting(self, source: Source) -> float | None:
        """When the oldest unread record was written, in seconds since 1970; None if there is none or it is unknown.

        Earlier measurements give the age if they reach back to the position; otherwise one record is fetched.
        """
        if not source.records:
            return None
        if source.seconds is not None:
            return time.time() - source.seconds
        oldest = self._oldest.setdefault((source.watched.stream, source.watched.source), _Oldest())
        if time.monotonic() >= oldest.until:
            times = broker.written_at(source.watched.cluster, source.waiting(), isolation=source.watched.isolation)
            oldest.written, oldest.until = min(times.values(), default=None), time.monotonic() + WRITTEN_EVERY_S
        return oldest.written


@dataclass(frozen=True)
class Source:
    """Measurement of one source. `retention_s` None: unlimited. `oldest`: when its oldest unread record was written."""

    watched: Watched
    ends: Offsets
    records: int
    seconds: float | None
    arriving: float | None
    growing: float | None
    retention_s: float | None
    oldest: float | None = None

    def waiting(self) -> Offsets:
        """The first unread offset of each partition that has one."""
        landed = position.parse(self.watched.at)
        firsts = {t: {p: landed.get(t, {}).get(p, 0) for p in parts} for t, parts in self.ends.items()}
        return {t: {p: o for p, o in parts.items() if o < self.ends[t][p]} for t, parts in firsts.items()}


Measured = Source | Failure | None
"""One source: measured, not measured, or not what was landed from."""


def _why(result: Failure | None) -> str:
    return position.REPLACED if result is None else result.words


def document(sources: Sequence[Source], oldest: float | None, unmeasured: Mapping[str, str] | None = None) -> Watch:
    """The JSON document that `registry.observations` describes.

    Args:
        sources: what was measured.
        oldest: when the oldest unread record of these was written.
        unmeasured: the other sources -> why they were not measured.
    """
    partitions: list[WatchedPartition] = []
    for source in sources:
        landed = position.parse(source.watched.at)
        for topic, ends in sorted(source.ends.items()):
            for partition, end in sorted(ends.items()):
                at = landed.get(topic, {}).get(partition)
                partitions.append(
                    {
                        "source": source.watched.source,
                        "topic": topic,
                        "partition": partition,
                        "position": at,
                        "end": end,
                        "lag_records": max(0, end - (at or 0)),
                    }
                )
    return {
        "at": rfc3339(datetime.now(UTC), "seconds"),  # the recorder's time is that of whatever part changed last
        "partitions": partitions,
        "oldest": None if oldest is None else datetime.fromtimestamp(oldest, UTC).isoformat(timespec="seconds"),
        "retention_s": min((s.retention_s for s in sources if s.retention_s is not None), default=None),
        "arriving_per_second": None if unmeasured else _sum([source.arriving for source in sources]),
        "lag_per_second": None if unmeasured else _sum([source.growing for source in sources]),
        "unmeasured": dict(unmeasured or {}),
        "at_least": _least(sources) if unmeasured else None,
    }


def _least(sources: Sequence[Source]) -> AtLeast:
    """The lag of the sources that were measured."""
    seconds = [source.seconds for source in sources if source.seconds is not None]
    return {"records": sum(source.records for source in sources), "seconds": max(seconds, default=None)}


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 2) if known and len(known) == len(values) else None
