"""What streams are counted by, from the registry's picture to each stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakeward.driver.advisory import Advising
from lakeward.engine.assignment import Picture
from lakeward.engine.sinks.counting import Counting
from lakeward.quality.advisory.counted import Counters, counters
from lakeward.spec.model.suite import Suite

CHECK = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}}
MADE = counters(Suite.model_validate({"table": "a.t", "owner": "me", "expectations": [CHECK]}))


class Seen:
    """A registry that can be away."""

    def __init__(self) -> None:
        self.picture: Picture | None = None
        self.told: list[tuple[str, str]] = []
        self.advising = Advising(lambda: self.picture, lambda stream, text: self.told.append((stream, text)))

    def says(self, **by_table: tuple[str, str]) -> None:
        self.picture = Picture(
            datetime.now(UTC), counters={name.replace("_", "."): each for name, each in by_table.items()}
        )
        self.advising.turn()


def _by(counting: Counting) -> Any:
    return counting._said[1]


def test_a_stream_is_counted_by_what_its_table_was_told_last() -> None:
    seen = Seen()
    counting, other = seen.advising.of("s", "a.t"), seen.advising.of("o", "a.u")
    assert _by(counting) == Counters(), "nobody has looked at the registry yet"
    seen.says(a_t=(MADE.digest, MADE.text))
    assert (_by(counting), _by(other)) == (MADE, Counters())
    seen.picture = None
    seen.advising.turn()
    assert _by(counting) == MADE, "a registry that is away changes nothing"
    seen.says()
    assert _by(counting) == Counters()


def test_a_start_knows_at_once_and_of_what_failed_before() -> None:
    seen = Seen()
    seen.says(a_t=(MADE.digest, MADE.text))
    counting = seen.advising.of("s", "a.t")
    assert _by(counting) == MADE
    counting.failed()
    assert seen.told == [("s", "rows are not counted: a batch failed while they were; tried again in 60 min")]
    assert seen.advising.of("s", "a.t") is counting


def test_what_cannot_be_read_is_told_once_and_nothing_is_counted() -> None:
    seen = Seen()
    counting = seen.advising.of("s", "a.t")
    for _ in range(2):
        seen.says(a_t=("d", '{"counted": [{"of": "tomorrow"}]}'))
    assert len(seen.told) == 1
    assert _by(counting) == Counters()
