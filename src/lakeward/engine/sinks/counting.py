"""Counting, while a batch is written, the rows that a check of its table will call failing. Advisory: see ADR 62.

The counts ride on the write (`DataFrame.observe`): no job, no second reading. They are an accumulator's, so a task that
ran again may have counted twice; such a batch is told by its rows and has no counts. An expression that fails on a row
gives null, which is not a failing row: nothing of this can fail a write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

from lakeward.quality.advisory.conditions import Condition, NotCountable, condition
from lakeward.quality.advisory.counted import Counters, of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.observation import Observation

_log = structlog.get_logger(__name__)

Counts = Mapping[str, tuple[int, int]]
"""Check -> rows that fail, of so many: of those looked at where some may fail (`mostly`), else of all rows. One that is
not in it: none of all rows."""
TRIES = 10
"""Times that Spark is asked for the counts of a batch; it waits a tenth of a second each time it has none."""
PAUSE_S = 3600.0
"""A batch that failed while its rows were counted: for so long they are not."""


@dataclass(frozen=True)
class Watched:
    """The rows of a batch, counted when they are written.

    Attributes:
        rows: to be written in place of the given ones.
        checks: check -> the names of its two counts; None: every row is looked at.
    """

    rows: DataFrame
    checks: Mapping[str, tuple[str, str | None]]
    _observation: Observation

    def counts(self, landed: int) -> Counts | None:
        """What was counted; None where that is not known, or where it is not of these rows, each once.

        Args:
            landed: rows the table got, by its own account.
        """
        observed: Any = self._observation
        try:
            # Spark hands them on beside the write, mostly before it has ended. `get` would wait for ever.
            if not any(observed._jo.getRowOrEmpty().isDefined() for _ in range(TRIES)):
                return None
            found: dict[str, int] = observed.get
        except Exception as error:  # noqa: BLE001  # named boundary: the batch has landed, whatever became of its counts
            _log.warning("counts are lost", error=str(error))
            return None
        if found.get(_ALL) != landed:
            return None
        counted = {
            name: (found[fails], landed if of is None else found[of]) for name, (fails, of) in self.checks.items()
        }
        return {name: each for name, each in counted.items() if each != (0, landed)}


_ALL = "rows"


@dataclass(frozen=True)
class Fitted:
    """What is counted of rows with certain columns. Made once: each column takes some calls into the JVM.

    Attributes:
        totals: the counts, as columns with their names.
        checks: as `Watched` has them.
    """

    totals: Sequence[Column]
    checks: Mapping[str, tuple[str, str | None]]


@dataclass
class Counting:
    """One a stream, over all its starts; the control loop says what is counted by, batches ask.

    Args:
        tell: takes what a person should know, once.
    """

    tell: Callable[[str], None] = lambda text: None
    _said: tuple[str, Counters] = field(default=("", Counters()), init=False)
    _fitted: tuple[str, Any, Fitted] | None = field(default=None, init=False)
    _paused_until: float = field(default=0.0, init=False)

    def use(self, said: tuple[str, str] | None) -> None:
        """What is counted by from the next batch on: digest and text as `registry.counters` has them; None: nothing."""
        digest, text = said or ("", "")
        if digest == self._said[0]:
            return
        try:
            self._said = (digest, of(text) if text else Counters())
        except (KeyError, TypeError, ValueError) as error:
            self._said = (digest, Counters())
            self._say(f"rows are not counted: what they are counted by cannot be read by this version: {error!r}")

    def watch(self, rows: DataFrame) -> Watched | None:
        """The rows with their counters, or None where nothing is counted. Whatever goes wrong is told, not raised."""
        digest, counters = self._said
        if not counters.counted or time.monotonic() < self._paused_until:
            return None
        try:
            return _watched(rows, self._fitting(rows, digest, counters))
        except Exception as error:  # noqa: BLE001  # named boundary: advice is never worth a batch
            self._pause(f"rows are not counted: {type(error).__name__}: {' '.join(str(error).splitlines()[:1])}")
            return None

    def failed(self) -> None:
        """A batch failed while it was counted: the next one is not, whatever it was."""
        self._pause("rows are not counted: a batch failed while they were")

    def _pause(self, why: str) -> None:
        self._paused_until = time.monotonic() + PAUSE_S
        self._say(f"{why}; tried again in {PAUSE_S / 60:.0f} min")

    def _fitting(self, rows: DataFrame, digest: str, counters: Counters) -> Fitted:
        """The conditions that fit the columns; made anew when those change, and what does not fit is told then."""
        known, schema = self._fitted, rows.schema
        if known is not None and known[:2] == (digest, schema):
            return known[2]
        found: dict[str, Condition] = {}
        for each in counters.counted:
            try:
                made = _countable(condition(each, rows), rows)
                # How many rows are looked at decides where some may fail; every count takes its part of the batch.
                found[each.check] = made if each.mostly < 1 else replace(made, looked_at=None)
            except NotCountable as error:
                self._say(f"rows are not counted by {each.name}: {error}")
        fitted = _fitted(found, rows.sparkSession._jvm)
        self._fitted = (digest, schema, fitted)
        return fitted

    def _say(self, text: str) -> None:
        _log.warning("early warnings", text=text)
        self.tell(text)


def _countable(made: Condition, rows: DataFrame) -> Condition:
    """The condition, if it may stand in what is counted on the way: one with a subquery may not."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        rows.observe("tried", F.count(F.when(made.fails, 1)))  # is analysed, not run
    except PySparkException as error:
        raise NotCountable(" ".join(str(error).splitlines()[:1])) from None
    return made


def _watched(rows: DataFrame, fitted: Fitted) -> Watched | None:
    from pyspark.sql import Observation

    if not fitted.checks:
        return None
    observation = Observation()
    return Watched(rows.observe(observation, *fitted.totals), fitted.checks, observation)


def _fitted(conditions: Mapping[str, Condition], jvm: Any) -> Fitted:
    from pyspark.sql import functions as F

    totals: dict[str, Column] = {_ALL: F.count(F.lit(1))}
    checks: dict[str, tuple[str, str | None]] = {}
    for number, (check, each) in enumerate(conditions.items()):
        fails, looked_at = f"c{number}", None
        totals[fails] = F.count(F.when(_tried(each.fails, jvm), 1))
        if each.looked_at is not None:
            looked_at = f"of {each.domain}"  # the same for every check of a column
            totals[looked_at] = F.count(F.when(_tried(each.looked_at, jvm), 1))
        checks[check] = (fails, looked_at)
    return Fitted([column.alias(name) for name, column in totals.items()], checks)


def _tried(column: Column, jvm: Any) -> Column:
    """Null where it cannot be computed: a cast, a division or a pattern that fails must not fail the write."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    made = jvm.org.apache.spark.sql.classic.ExpressionUtils
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(made.expression(column._jc))
    return ClassicColumn(made.column(tried))
