"""`expect_volume_as_usual` and `expect_freshness_as_usual`: compare a table with its own history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from lakeward.platform.text import instant, moment
from lakeward.quality.engine.custom.base import CheckContext, result
from lakeward.quality.engine.custom.outlier import OutlierScore, judge
from lakeward.quality.ranges.range import Kind
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.model.custom_expectations import Freshness, Usual, Volume
from lakeward.spec.sql.statements import quote

_SHORTEST_S = 60.0  # a shorter interval gives no meaningful rate


def volume(kwargs: Volume, configured: ConfiguredCheck, context: CheckContext) -> Check:
    """Rows an hour since the last proof. A range may have 1 commit or 50, so row counts alone are not comparable."""
    found = context.found
    base = context.history.snapshots.get(found.base.snapshot) if found.base else None
    if found.rewritten:
        return configured.blank(State.SKIPPED, "rows were rewritten in the range: the number of new rows is unknown")
    if found.kind is not Kind.INCREMENT or found.head is None or base is None or found.rows is None:
        return configured.blank(State.SKIPPED, "the range has no rate: its rows cannot be separated from older rows")
    seconds = max((found.head.at - base.at).total_seconds(), _SHORTEST_S)
    rate = found.rows / seconds * 3600
    judged = judge(rate, found.head.at, context.past(configured.id), runs=kwargs.runs, at_least=kwargs.at_least)
    far = judged.spreads or 0.0
    wrong = {"less": far < -kwargs.limit, "more": far > kwargs.limit, "both": abs(far) > kwargs.limit}[kwargs.only]
    measured = f"{rate:,.0f} rows an hour ({found.rows:,} in {_span(seconds)})"
    return result(
        configured, not wrong, rows=found.rows, observed=_observed(rate, measured, judged, kwargs, "{:,.0f}".format)
    )


def freshness(kwargs: Freshness, configured: ConfiguredCheck, context: CheckContext) -> Check:
    """The age of the newest event when the newest commit of the range was made."""
    head = context.found.head
    if head is None:
        return configured.blank(State.SKIPPED, "the table has no snapshot yet")
    # As seconds since 1970. A timestamp without a zone is read as UTC, the session's time zone.
    column = f"unix_micros(CAST(max({quote(kwargs.column)}) AS TIMESTAMP)) / 1e6"
    newest = context.together().selectExpr(f"{column} AS newest").collect()[0]["newest"]
    if newest is None:
        return configured.blank(State.SKIPPED, f"no row of the range has a {kwargs.column}")
    age = head.at.timestamp() - float(newest)
    judged = judge(age, head.at, context.past(configured.id), runs=kwargs.runs, at_least=kwargs.at_least)
    wrong = (judged.spreads or 0.0) > kwargs.limit
    measured = f"the newest event ({_time(float(newest))}) was {_span(age)} old when it was committed"
    return result(configured, not wrong, observed=_observed(age, measured, judged, kwargs, _span))


def _observed(
    value: float, observed: str, judged: OutlierScore, kwargs: Usual, form: Callable[[float], str]
) -> dict[str, object]:
    """The value, which later runs compare with, and a sentence that names what it was compared with."""
    if judged.spreads is None or judged.median is None or judged.spread is None:
        text = f"{observed}; too little history to compare: {judged.runs} of {kwargs.at_least} runs"
    else:
        of = "runs at this hour of other days" if judged.hourly else "runs"
        usual = f"{form(judged.median)} ± {form(judged.spread)}"
        text = (
            f"{observed}; usual is {usual} ({judged.runs} {of}): {judged.spreads:+.1f} spreads, limit {kwargs.limit:g}"
        )
    return {"value": round(value, 3), "text": text}


def _span(seconds: float) -> str:
    """Hours, minutes and seconds: 2:05:00; negative for events in the future."""
    return "-" * (seconds < 0) + str(timedelta(seconds=abs(round(seconds))))


def _time(seconds: float) -> str:
    return moment(instant(seconds * 1000))
