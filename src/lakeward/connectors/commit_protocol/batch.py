"""One batch of a query, as a sink is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class Counted:
    """What the caller knows about a batch besides the rows it lands.

    `consumed` must be the result of a query (`tally`), not an accumulator or an `Observation`: those count a
    task again whose shuffle output was lost. `landed` is not here: the staged snapshot's `added-records` is exact,
    because only the files of committed tasks are in it.

    Attributes:
        consumed: records decoded; None where nobody counted them: a source that cannot be read again, under state.
        quarantined: of these, kept aside.
        traced: whether a row stands for a record (lineage `rows`), so that what is neither landed nor kept aside was
            filtered.
    """

    consumed: int | None = None
    quarantined: int = 0
    traced: bool = True

    def filtered(self, landed: int) -> int | None:
        """Records the transform dropped, where so many rows landed; None where that cannot be said."""
        if self.consumed is None or not self.traced:
            return None
        return max(0, self.consumed - landed - self.quarantined)
