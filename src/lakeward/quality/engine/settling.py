"""Settles the arguments of checks against the columns of a frame, before any statement about its rows is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.platform.boundary import Failure, attempt
from lakeward.quality.arguments import patterns
from lakeward.quality.arguments.columns import of_schema
from lakeward.quality.arguments.expectation import settle
from lakeward.quality.arguments.faults import Fault
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.read.document import read_document

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame


def settle_all(checks: Sequence[ConfiguredCheck], frame: DataFrame) -> tuple[list[ConfiguredCheck], dict[str, Check]]:
    """The checks that can be computed, with settled arguments, and an error for each of the others, by its id.

    The frame is asked for its schema only, and its session to compile regular expressions.

    Raises:
        PySparkException: no server answers.
    """
    columns = of_schema(frame.schema)
    written = {pattern for each in checks for pattern in patterns.patterns_of(each.expectation.kwargs).values()}
    wrong = patterns.refused_by_spark(frame.sparkSession, written)
    sound, refused = [], {}
    for each in checks:
        kind, kwargs = str(each.expectation.type), each.expectation.kwargs
        settled = attempt(f"arguments of {kind} ({each.id})", partial(settle, kind, kwargs, columns))
        if isinstance(settled, Failure):  # this check alone is an error
            refused[each.id] = each.blank(State.ERROR, settled.words)
            continue
        faults = [*settled.faults, *patterns.faults(kwargs, wrong)]
        if faults:
            refused[each.id] = each.blank(State.ERROR, problem(each, faults))
        else:
            sound.append(replace(each, settled=settled))
    return sound, refused


def problem(configured: ConfiguredCheck, faults: Sequence[Fault]) -> str:
    """What is wrong with a check's arguments, as one sentence with the place in the suite's file."""
    place = _place(configured, faults[0])
    return "; ".join(fault.text() for fault in faults) + (f" ({place})" if place else "")


def _place(configured: ConfiguredCheck, fault: Fault) -> str:
    if configured.file is None:
        return ""
    try:
        document = read_document(Path(configured.file).read_text(encoding="utf-8"))
    except OSError:
        return configured.file.name
    line = document.place(("expectations", configured.number, "kwargs", *fault.path)).line
    return f"{configured.file.parent.name}/{configured.file.name}:{line}"
