"""`expect_landed_to_equal_offsets`: compares landed and quarantined records with the offsets the batches read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from lakeward.quality.engine.custom.base import CheckContext, result
from lakeward.quality.engine.custom.landed import Stretch, Uncountable, batch_of, commits, parts, stretches
from lakeward.quality.suite.configured import ConfiguredCheck
from lakeward.quality.verdicts.verdict import Check, State
from lakeward.spec.model.custom_expectations import LandedEqualsOffsets
from lakeward.spec.model.position_columns import IDENTITY_COLUMNS

_COLUMNS = IDENTITY_COLUMNS["kafka"]
_RANGES = "topic STRING, part INT, low BIGINT, high BIGINT"


def landed_equals_offsets(kwargs: LandedEqualsOffsets, configured: ConfiguredCheck, context: CheckContext) -> Check:
    """Records that the batches read and that are missing, doubled, or outside of the batches' offsets."""
    appends = commits(context.found)
    seqs: dict[str, list[int]] = {}
    for stream, seq in filter(None, map(batch_of, appends)):
        seqs.setdefault(stream, []).append(seq)
    if not seqs:
        return configured.blank(State.SKIPPED, "no batch of a stream is in the range")
    known = {stream: context.landings(stream, min(found) - 1) for stream, found in seqs.items()}
    runs = [each for stream, found in seqs.items() for each in stretches(stream, found, known[stream].batches)]
    _one_stream_a_topic(runs)
    counted = _counted(context, runs, {stream: _spec(stream, each.spec) for stream, each in known.items()})
    foreign = [append for append in appends if batch_of(append) is None]
    others = [f"{commit.id} ({commit.added:,} rows)" for commit in foreign if commit.added]
    return _judged(configured, runs, counted, others)


def _judged(
    configured: ConfiguredCheck, runs: Sequence[Stretch], counted: Mapping[str, int], theirs: Sequence[str]
) -> Check:
    moved, skipped = sum(run.offsets for run in runs), sum(run.skipped for run in runs)
    holes = sum(run.holes for run in runs)
    unknown = [run.stream for run in runs if run.filtered is None]
    filtered = sum(run.filtered or 0 for run in runs)
    missing = moved - counted["landed"] - counted["quarantined"] - filtered - skipped - holes
    if missing and unknown:
        raise Uncountable(f"stream {unknown[0]} has batches in the range without a count of filtered records")
    of = ", ".join(f"{run.stream} seq {run.from_seq} to {run.to_seq}" for run in runs)
    text = f"offsets moved by {moved:,} ({of}): {counted['landed']:,} landed, "
    text += f"{counted['quarantined']:,} in quarantine, "
    text += f"{filtered:,} filtered, {skipped:,} skipped, {holes:,} offsets without a record; "
    text += f"{missing:,} missing, {counted['doubled']:,} rows doubled, "
    text += f"{counted['beyond']:,} outside the batches' offsets"
    if theirs:
        text += f"; not included, because not committed by a stream: snapshot {', '.join(theirs)}"
    wrong = abs(missing) + counted["doubled"] + counted["beyond"]
    if wrong:
        text += f"; details: lakeward streams audit {runs[0].stream}"
    return result(configured, wrong == 0, rows=moved, unexpected_count=wrong, observed=text)


def _counted(context: CheckContext, runs: Sequence[Stretch], specs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Counts: records `landed`, records `quarantined` only, rows `doubled`, records `beyond` the batches' offsets."""
    from pyspark.sql.connect import functions as f

    foreign = [commit for commit in commits(context.found) if batch_of(commit) is None]
    frames = [context.rows(part) for part in parts(context.found, foreign)]
    absent = [name for name in _COLUMNS if name not in frames[0].columns]
    if absent:
        raise Uncountable(f"the table has no column {absent[0]}: its rows cannot be traced to records")
    topic, part, offset = (f.col(name) for name in _COLUMNS)
    ranges = frames[0].sparkSession.createDataFrame(
        [(each[0], each[1], low, high) for run in runs for each, (low, high) in run.moved.items()], _RANGES
    )

    def records(frame: Any, row: int) -> Any:  # Connect's stubs say classic frames come out
        return frame.select(topic.alias("t"), part.alias("p"), offset.alias("o"), f.lit(row).alias("row"))

    rows = [records(frame, 1) for frame in frames]
    for stream, spec in specs.items():
        quarantine_table = (spec.get("quarantine") or {}).get("table")
        if quarantine_table:
            rows.append(records(context.table(str(quarantine_table)).where(f.col("stream") == f.lit(stream)), 0))
    within = (f.col("t") == f.col("topic")) & (f.col("p") == f.col("part"))
    within &= (f.col("o") >= f.col("low")) & (f.col("o") < f.col("high"))
    by_record = reduce(lambda one, other: one.unionAll(other), rows).groupBy("t", "p", "o").agg(
        f.sum("row").alias("rows")
    )  # fmt: skip
    inside = f.col("topic").isNotNull()
    found = by_record.join(f.broadcast(ranges.distinct()), within, "left").agg(
        f.count_if(inside & (f.col("rows") > 0)).alias("landed"),
        f.count_if(inside & (f.col("rows") == 0)).alias("quarantined"),
        f.coalesce(f.sum(f.when(f.col("rows") > 1, f.col("rows") - 1)), f.lit(0)).alias("doubled"),
        f.count_if(~inside & (f.col("rows") > 0)).alias("beyond"),
    )
    return {name: int(value) for name, value in found.collect()[0].asDict().items()}


def _spec(stream: str, spec: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if spec is None:
        raise Uncountable(f"stream {stream} is not in the registry, so its quarantine table is unknown")
    if spec.get("lineage") != "rows":
        raise Uncountable(
            f"stream {stream} has lineage {spec.get('lineage') or 'none'}: its rows do not map to records"
        )
    return spec


def _one_stream_a_topic(runs: Sequence[Stretch]) -> None:
    owner: dict[str, str] = {}
    for run in runs:
        for topic, _ in run.moved:
            if owner.setdefault(topic, run.stream) != run.stream:
                raise Uncountable(f"streams {owner[topic]} and {run.stream} both land topic {topic} in this table")
