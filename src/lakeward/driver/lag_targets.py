"""Landed positions of a driver's streams, from which the lag thread measures, and the measured lag."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeward.driver.lag import Watched
from lakeward.driver.running import Running


@dataclass
class LagTargets:
    """Written by batch threads and the lag thread, read by the control loop; every value is replaced as a whole."""

    _at: dict[str, dict[str, str]] = field(default_factory=dict)
    _waiting: dict[str, int | None] = field(default_factory=dict)
    _behind_s: dict[str, float | None] = field(default_factory=dict)
    _arriving: dict[str, float | None] = field(default_factory=dict)
    _gauged: dict[str, dict[str, str]] = field(default_factory=dict)

    def landed(self, stream: str, ends: dict[str, str]) -> None:
        """Set the landed position of a stream: source name -> position."""
        self._at[stream] = ends

    def began(self, stream: str, at: dict[str, str]) -> None:
        """Set the position at which a stream started, unless a batch has landed. What arrives is not known yet."""
        self._at.setdefault(stream, at)
        self._arriving.pop(stream, None)

    def ended(self, stream: str) -> None:
        """Stop measuring a stream that no longer runs."""
        self._at.pop(stream, None)

    def behind(self, stream: str, records: int | None, seconds: float | None = None) -> None:
        """Set the number of unread records of a stream and the age of the oldest; None: not known any more."""
        self._waiting[stream], self._behind_s[stream] = records, seconds

    def arrives(self, stream: str, per_second: float | None) -> None:
        """Set how many records per second arrive; None: not known any more."""
        self._arriving[stream] = per_second

    def waiting(self, stream: str) -> int | None:
        """Number of unread records of a stream; None if not measured."""
        return self._waiting.get(stream)

    def behind_s(self, stream: str) -> float | None:
        """Age in seconds of the oldest unread record; None if there is none, or it is not measured."""
        return self._behind_s.get(stream)

    def arriving(self, stream: str) -> float | None:
        """Records per second that arrive; None if not measured."""
        return self._arriving.get(stream)

    def watched(self, running: Iterable[Running]) -> list[Watched]:
        """The sources to measure: those of running streams, from the first batch on."""
        measured = []
        for query in running:
            ends = self._at.get(query.stream, {})
            if query.assignment.spec.trigger.unbatched:
                # A real-time query reports its position only at boundaries: in between its lag would seem to grow.
                if self._gauged.get(query.stream) == ends:
                    continue
                self._gauged[query.stream] = ends
            measured.append(query)
        return self.positions(measured)

    def positions(self, running: Iterable[Running]) -> list[Watched]:
        """The sources of running streams that have landed something, with their positions."""
        found = []
        for query in running:
            ends = self._at.get(query.stream, {})
            unmeasured = {}
            gauges = {}
            for source in query.function.flow.sources:
                at = ends.get(source.name)
                gauge = None if at is None else source.gauge(at)
                if at is None:
                    unmeasured[source.name] = "its position is not known yet"
                elif gauge is None:
                    unmeasured[source.name] = f"a driver does not measure a source of type {source.spec.connector}"
                else:
                    gauges[source.name] = (at, gauge)
            found += [
                Watched(
                    query.stream, name, gauge.cluster, gauge.topics, at, gauge.isolation, gauge.mirrored, unmeasured
                )
                for name, (at, gauge) in gauges.items()
            ]
        return found
