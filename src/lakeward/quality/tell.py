"""A result as a few sentences with numbers, for a log a person reads at 3 a.m."""

from __future__ import annotations

from typing import Any

import structlog

from lakeward.quality.records import Result, next_step
from lakeward.quality.verdict import Check, State

log = structlog.get_logger(__name__)


def story(result: Result) -> None:
    """Tell the verdict, each check that failed, since when, and what to do now."""
    table = result.table
    for check in result.failed:
        level = log.error if check.state is State.ERROR or check.effect.name == "HOLD" else log.warning
        level(f"{table}: {describe(check)}", table=table, check=check.id)
        if check.sample:
            log.info(f"{table}: for example {check.sample[0]}", check=check.id)
    if result.first_bad is not None:
        landed = "; ".join(
            f"stream {each['stream']} seq {each['from_seq']}, offsets {each['start']} to {each['end']}"
            for each in result.first_bad_batches
        )
        log.warning(f"{table}: first bad snapshot {result.first_bad}" + (f" ({landed})" if landed else ""))
    counts = {state: sum(check.state is state for check in result.checks) for state in State}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or result.note
    text = f"{table}: verdict {result.verdict} ({told}) in {result.duration_s:.1f} s"
    if result.verdict.publishes:
        log.info(text, table=table, run=result.run)
        return
    stands = f"readers stay on verified snapshot {result.verified}" if result.verified else "nothing is verified yet"
    log.error(f"{text}; {stands}", table=table, run=result.run)
    log.info(f"{table}: next: {next_step(result.verdict, table)}")


def said(observed: Any) -> str:
    """What a check observed: its own sentence where it has one."""
    return str(observed["text"]) if isinstance(observed, dict) and "text" in observed else f"observed {observed}"


def describe(check: Check) -> str:
    """One failed check as a sentence."""
    column = check.kwargs.get("column")
    name = f"{check.expectation}({column})" if column else check.expectation
    text = f"{check.severity} check {name} "
    if check.state is State.ERROR:
        text += f"could not be computed: {check.error}"
    elif check.unexpected_count is not None and check.rows:
        text += f"failed: {check.unexpected_count:,} of {check.rows:,} rows"
    else:
        text += f"failed: {said(check.observed)}"
    if check.excuse is not None:
        text += f" ({check.excuse.text})"
    return text + (f"; {check.why}" if check.why else "")
