"""What the rows of each stream are counted by, as the registry last said it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakeward.engine.assignment import Picture
from lakeward.engine.sinks.counting import Counting


@dataclass
class Advising:
    """One a driver.

    Args:
        picture: the newest one, however old: the registry may be away.
        tell: (stream, text) takes what a person should know, once.
    """

    picture: Callable[[], Picture | None]
    tell: Callable[[str, str], None]
    _streams: dict[str, tuple[str, Counting]] = field(default_factory=dict)

    def of(self, stream: str, table: str) -> Counting:
        """The counters of a stream that starts: the same at each start, so that they know of a batch that failed."""
        known = self._streams.get(stream)
        counting = known[1] if known is not None else Counting(lambda text: self.tell(stream, text))
        self._streams[stream] = (table, counting)
        self.turn()
        return counting

    def turn(self) -> None:
        """Hand on what is new."""
        picture = self.picture()
        if picture is None:
            return
        for table, counting in list(self._streams.values()):
            counting.use(picture.counters.get(table))
