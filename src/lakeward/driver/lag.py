"""How far each stream is behind its source, measured at the source: also right while the query stands still."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from lakeward.connectors.kafka import broker, position
from lakeward.connectors.kafka.position import Offsets
from lakeward.errors import DependencyDown

_log = structlog.get_logger(__name__)

EVERY_S = 5.0
HISTORY = 720


@dataclass
class Meter:
    """Lag of one source in records and in seconds.

    In seconds: how long ago the source ended where the stream is now, by earlier measurements of the same source.
    """

    _ends: deque[tuple[float, Offsets]] = field(default_factory=lambda: deque(maxlen=HISTORY))

    def measure(self, at: str, ends: Offsets, now: float) -> tuple[int, float | None]:
        """(records, seconds); seconds is None when the source was never seen that short."""
        self._ends.append((now, ends))
        behind = position.behind(at, ends)
        if behind == 0:
            return 0, 0.0
        for moment, earlier in reversed(self._ends):
            if position.behind(at, earlier) == 0:
                return behind, round(now - moment, 1)
        return behind, None


@dataclass(frozen=True)
class Watched:
    """One source of one running stream: where it is read, and up to which offsets it is landed."""

    stream: str
    source: str
    bootstrap: str
    topics: tuple[str, ...]
    at: str


class LagThread:
    """Measures every few seconds; leaves the sums with `note`."""

    def __init__(
        self, watched: Callable[[], Sequence[Watched]], note: Callable[[str, int, float | None], None]
    ) -> None:
        self._watched = watched
        self._note = note
        self._meters: dict[tuple[str, str], Meter] = {}
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
            except DependencyDown:
                continue  # the streams say themselves that their broker is away
            except Exception as error:  # noqa: BLE001  # named boundary: measuring must not end for one odd answer
                if str(error) != self._said:
                    _log.exception("lag cannot be measured")
                self._said = str(error)
            else:
                self._said = ""

    def once(self) -> None:
        """Measure all streams now, each broker asked once."""
        watched = list(self._watched())
        ends: dict[str, Offsets] = {}
        for bootstrap in sorted({each.bootstrap for each in watched}):
            topics = sorted({topic for each in watched if each.bootstrap == bootstrap for topic in each.topics})
            ends[bootstrap] = broker.end_offsets(bootstrap, topics)
        sums: dict[str, tuple[int, float | None]] = {}
        now = time.monotonic()
        for each in watched:
            own: Mapping[str, dict[int, int]] = ends[each.bootstrap]
            part = {topic: own[topic] for topic in each.topics if topic in own}
            meter = self._meters.setdefault((each.stream, each.source), Meter())
            records, seconds = meter.measure(each.at, part, now)
            before = sums.get(each.stream, (0, 0.0))
            unknown = seconds is None or before[1] is None
            sums[each.stream] = (before[0] + records, None if unknown else max(seconds or 0.0, before[1] or 0.0))
        for stream, (records, seconds) in sums.items():
            self._note(stream, records, seconds)
