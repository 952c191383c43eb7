"""Where the streams of a driver stand: what the lag thread measures from, and what it found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeward.driver.lag import Watched
from lakeward.driver.running import Running


@dataclass
class LagTargets:
    """Written by the threads of batches and of the lag, read by the control loop: each a whole value by one name."""

    _at: dict[str, dict[str, str]] = field(default_factory=dict)
    _waiting: dict[str, int] = field(default_factory=dict)
    _gauged: dict[str, dict[str, str]] = field(default_factory=dict)

    def landed(self, stream: str, ends: dict[str, str]) -> None:
        """Remember up to where a stream has landed: source name -> position."""
        self._at[stream] = ends

    def began(self, stream: str, at: dict[str, str]) -> None:
        """A stream was started at a position; a batch may have landed already."""
        self._at.setdefault(stream, at)

    def ended(self, stream: str) -> None:
        """A stream runs no more: nothing is measured of it."""
        self._at.pop(stream, None)

    def behind(self, stream: str, records: int) -> None:
        """Remember how many records wait for a stream."""
        self._waiting[stream] = records

    def waiting(self, stream: str) -> int | None:
        """How many records wait for a stream; None if nobody measured it."""
        return self._waiting.get(stream)

    def watched(self, running: Iterable[Running]) -> list[Watched]:
        """What the lag thread measures: sources of running streams, from the first batch on."""
        found = []
        for each in running:
            ends = self._at.get(each.stream, {})
            if each.wanted.spec.trigger.unbatched:
                # Where a hop stands is known at its boundaries only: in between it would seem to fall behind.
                if self._gauged.get(each.stream) == ends:
                    continue
                self._gauged[each.stream] = ends
            for inlet in each.function.flow.inlets:
                at = ends.get(inlet.name)
                gauge = None if at is None else inlet.gauge(at)
                if at is not None and gauge is not None:
                    found.append(Watched(each.stream, inlet.name, gauge.cluster, gauge.topics, at))
        return found
