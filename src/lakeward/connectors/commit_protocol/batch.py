"""The running batch of a query: identity, offsets and record counts, as passed to a sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class RunningBatch:
    """The batch a query is running.

    Attributes:
        query_id, batch: the checkpoint's identity and the number of the batch.
        start, end: source name -> canonical offset, `-` without data yet.
        topic_ids: topic -> id in the broker, as far as known.
    """

    query_id: str
    batch: int
    start: Mapping[str, str]
    end: Mapping[str, str]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def advances(self) -> bool:
        """Whether any source's offset moves."""
        return dict(self.start) != dict(self.end)


class Counting(Protocol):
    """How the counts of a batch become known, once its rows are staged."""

    def before(self) -> None:
        """Called before each write of the rows.

        Raises:
            Exception: of the caller, to end the batch before the write.
        """
        ...

    def after(self, landed: int) -> Counted:
        """The counts, given the number of staged rows.

        Raises:
            Exception: of the caller, to end the batch before anything is visible.
        """
        ...


@dataclass(frozen=True)
class Counted:
    """What the caller knows about a batch besides the rows it lands.

    `consumed` must be the result of a query (`tally`), or proven (`engine.one_pass`): an accumulator or an
    `Observation` counts a task twice when its shuffle output was lost. `landed` is not here: the staged snapshot's
    `added-records` is exact, because it contains only the files of committed tasks.

    Attributes:
        consumed: records decoded; None if not counted: a source that cannot be read twice, in a stateful query.
        quarantined: of these, the records in quarantine.
        traced: whether a row is one record (lineage `rows`), so that a record that is neither landed nor quarantined
            was filtered.
    """

    consumed: int | None = None
    quarantined: int = 0
    traced: bool = True

    def before(self) -> None:
        """Nothing: the rows may be written any number of times."""

    def after(self, landed: int) -> Counted:
        """Itself: the counts are known before the rows are written."""
        return self

    def filtered(self, landed: int) -> int | None:
        """Records the transform dropped, given the number of landed rows; None where that is not known."""
        if self.consumed is None or not self.traced:
            return None
        return max(0, self.consumed - landed - self.quarantined)
