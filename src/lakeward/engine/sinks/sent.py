"""What a hop sent, as a landing: nothing is left to write, its rows are only counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.connectors.commit_protocol.batch import RunningBatch
from lakeward.engine.sinks.at_least_once import AtLeastOnce
from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class RealTimeLanding(AtLeastOnce):
    """Of the records between two boundaries of a hop. `batch` is set before each."""

    batch: RunningBatch | None = None

    @classmethod
    def of(
        cls, session: SparkSession, stream: str, sources: Sequence[str], held: Callable[[], None]
    ) -> RealTimeLanding:
        """The one of a stream; arguments as of `AtLeastOnce`."""
        return cls(session, stream, sources, held, _nothing)

    def running(self, batch_id: int) -> RunningBatch:
        """The records that are being accounted for."""
        if self.batch is None:
            raise LakewardError(f"Nothing of stream {self.stream} is being accounted for", code="LW-2227")
        return self.batch


def _nothing(rows: DataFrame, number: int) -> None:
    """The query itself has sent them."""
