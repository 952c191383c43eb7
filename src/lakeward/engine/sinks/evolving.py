"""Into a table that may be given what it lacks: what the new columns do to the position, whatever the format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakeward.connectors.commit_protocol.attempt import new_attempt
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.commit_protocol.writer import Read, TableWriter
from lakeward.engine.sinks.exact import ExactLanding

W = TypeVar("W", bound=TableWriter[Any, Any])


@dataclass
class GrowingLanding(ExactLanding[W]):
    """A sink whose table may be changed by a start. `additive`: whether it may. See docs/adr/0030."""

    additive: bool = False
    notes: tuple[str, ...] = field(default=(), init=False)
    """What a person should know of how the transform fits the table."""
    _mine: set[str] = field(default_factory=set, init=False)

    def moved(self, before: Position, added: Iterable[str], made: str, version: int | None = None) -> Position:
        """The position under an id of this generation, which added these columns.

        Args:
            made: when, as a text.
            version: the table's snapshot it will stand in, where the position names it.
        """
        generation = self.writer.generation
        changed: dict[str, Any] = {
            "generation": generation,
            "attempt": new_attempt(self.writer.stream, before.seq),
            "added": {**before.added, **dict.fromkeys(added, generation)},
            "at": made,
        }
        if version is not None:
            changed |= {"snapshot": version, "snapshot_seq": version}
        found: Position = before.model_copy(update=changed)
        self._mine.add(found.to_json())
        return found

    def unmoved(self, state: Read) -> None:
        """The position is what it was when the checkpoint was judged, or what this very start made of it.

        Raises:
            Fenced: somebody else landed since.
        """
        seen = None if self._seen is None else self._seen.state.raw
        if state.raw != seen and state.raw not in self._mine:
            raise self.writer.fenced(state)
        self.writer.expect(state.raw)


def empty_note(column: str, at: Position) -> str:
    """What is said of a column that a newer generation added and this one does not know."""
    return f"column {column} was added by generation {at.added[column]}; this one lands no value in it"
