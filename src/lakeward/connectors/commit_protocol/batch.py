"""The running batch of a query: identity, offsets and record counts, as passed to a sink."""

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

    `consumed` must be the result of a query (`tally`), not an accumulator or an `Observation`: those count a task twice
    when its shuffle output was lost. `landed` is not here: the staged snapshot's `added-records` is exact, because it
    contains only the files of committed tasks.

    Attributes:
        consumed: records decoded; None if not counted: a source that cannot be read twice, in a stateful query.
        quarantined: of these, the records in quarantine.
        traced: whether a row is one record (lineage `rows`), so that a record that is neither landed nor quarantined
            was filtered.
    """

    consumed: int | None = None
    quarantined: int = 0
    traced: bool = True

    def filtered(self, landed: int) -> int | None:
        """Records the transform dropped, given the number of landed rows; None where that is not known."""
        if self.consumed is None or not self.traced:
            return None
        return max(0, self.consumed - landed - self.quarantined)
