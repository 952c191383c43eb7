"""A check result as sentences with numbers, for the log of a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import structlog

from lakeward.quality.results.records import CheckDocument, Result, RunDocument, check_row, noun_of, shown
from lakeward.quality.verdicts.verdict import Check, State, Verdict
from lakeward.quality.verdicts.waivers import ActiveWaiver, columns_of
from lakeward.registry.verifications import LandedBatches

log = structlog.get_logger(__name__)

Level = Literal["info", "warning", "error"]
Line = tuple[Level, str]


def log_result(result: Result) -> None:
    """Log the run as `lines` has it."""
    for level, text in lines(result.document()):
        getattr(log, level)(f"{result.table}: {text}", table=result.table, run=result.run)


def lines(document: RunDocument) -> Iterator[Line]:
    """The log of a run: range, how the checks were decided, failures, verdict, verified snapshot, cost, next command.

    Args:
        document: the contract's JSON of `quality run` or `quality show`.
    """
    checks, publishes, noun = document["checks"], Verdict(document["verdict"]).publishes, noun_of(document)
    yield "info", f"range: {_range(document)}"
    if any(check["state"] != State.SKIPPED for check in checks):
        yield "info", _tiers(checks)
    for check in checks:
        yield from _failed(check)
    if document["first_bad_snapshot"] is not None:
        landed = _landed(document.get("first_bad_batches"))
        yield "warning", f"first bad {noun} {document['first_bad_snapshot']}{landed}"
    counts = Counter(check["state"] for check in checks)
    parts = ", ".join(f"{counts[state]} {state}" for state in State if counts[state]) or document["note"]
    yield "info" if publishes else "error", f"verdict {document['verdict']} ({parts})"
    if document["note"] and counts:
        yield "info", f"note: {document['note']}"
    verified = document["verified_snapshot"]
    if publishes:
        yield "info", f"verified is at {noun} {verified}" if verified is not None else "no snapshot is verified yet"
    else:
        yield (
            "error",
            f"readers stay on verified {noun} {verified}" if verified is not None else "no snapshot is verified yet",
        )
    yield "info", _cost(document)
    if document["next"]:
        yield "info", f"next: {document['next']}"


def _range(document: RunDocument) -> str:
    start, end, noun = document["from_snapshot"], document["to_snapshot"], noun_of(document)
    if end is None:
        return "nothing could be read" if document["verdict"] == Verdict.ERROR else "no snapshot yet"
    text = f"up to {noun} {end}" if start is None else f"{noun}s {start} (exclusive) to {end}"
    found = document.get("range")
    if found:
        text += f": {found['why']}" + (f", {found['rows']:,} rows" if found["rows"] is not None else "")
    return text + _landed(document["batches"])


def _landed(batches: list[LandedBatches] | None) -> str:
    parts = "; ".join(
        f"stream {batch['stream']} seq {batch['from_seq']} to {batch['to_seq']}, "
        f"offsets {between(batch['start'], batch['end'])}"
        for batch in batches or ()
    )
    return f" ({parts})" if parts else ""


_TIERS = {
    "metadata": "from metadata",
    "rows": "in one pass over the rows",
    "stock": "by stock Great Expectations",
}


def _tiers(checks: list[CheckDocument]) -> str:
    """How the checks were decided, and how many rows were read for them."""
    by = Counter(check.get("by") for check in checks if check["state"] in (State.PASS, State.FAIL))
    parts = [f"{by[tier]} {words}" for tier, words in _TIERS.items() if by[tier]]
    others = sum(count for tier, count in by.items() if tier not in _TIERS)
    parts += [f"{others} by Lakeward's own checks"] if others else []
    read = max((check.get("rows") or 0 for check in checks if check.get("by") in ("rows", "stock")), default=None)
    rows = f"{read:,} rows read" if read is not None else "" if others else "no row was read to decide"
    return f"decided: {'; '.join(filter(None, [', '.join(parts) or 'nothing', rows]))}"


def _failed(check: CheckDocument) -> Iterator[Line]:
    if check["state"] not in (State.FAIL, State.ERROR):
        return
    loud = check["state"] == State.ERROR or check.get("effect") == "hold"
    yield "error" if loud else "warning", _sentence(check)
    if check["sample"]:
        yield "info", f"for example {check['sample'][0]}"


def _cost(document: RunDocument) -> str:
    cpu, jobs = document.get("cpu_s"), document["spark_jobs"]
    parts = [f"{document['duration_s'] or 0:.1f} s"]
    parts += [f"{cpu:.1f} CPU-s of the checking process"] if cpu is not None else []
    parts += [f"{jobs} Spark jobs"] if jobs is not None else []
    return f"cost: {', '.join(parts)}"


def observed_text(observed: Any) -> str:
    """The observed value as text; its own sentence where it has one."""
    return str(observed["text"]) if isinstance(observed, dict) and "text" in observed else f"observed {observed}"


def describe(check: Check) -> str:
    """One failed check as a sentence."""
    return _sentence(shown(check_row(check)))


def _sentence(check: CheckDocument) -> str:
    columns = columns_of(check.get("kwargs") or {})
    name = f"{check['expectation']}({', '.join(columns)})" if columns else check["expectation"]
    text = f"{check['severity']} check {name} "
    if check["state"] == State.ERROR:
        text += f"could not be computed: {check.get('error')}"
    elif check["unexpected_count"] is not None and check.get("rows"):
        text += f"failed: {check['unexpected_count']:,} of {check['rows']:,} rows"
    else:
        text += f"failed: {observed_text(check['observed'])}"
    if excuse := check.get("excuse"):
        text += f" ({ActiveWaiver.of(excuse).text})"
    return text + (f"; {check['why']}" if check.get("why") else "")


UNNAMED = "source"
"""Default name of a stream's only source."""
MOST = 6
"""Maximum number of partitions that are listed; the others are counted."""


def between(start: Any, end: Any) -> str:
    """`flights/0 7494 to 7507, flights/1 7199 to 7210`; offsets of another form are shown as they are.

    Args:
        start, end: by source, as in the registry; for Kafka topic -> partition -> offset, as text or object.
    """
    first, last = _flat(start), _flat(end)
    if not last or any(not isinstance(each, int) for each in (*first.values(), *last.values())):
        return f"{_plain(start)} to {_plain(end)}"
    parts = [f"{name} {first.get(name, 'its beginning')} to {offset}" for name, offset in last.items()]
    more = f" and {len(parts) - MOST} more partitions" if len(parts) > MOST else ""
    return ", ".join(parts[:MOST]) + more


def _flat(value: Any) -> dict[str, object]:
    if isinstance(value, Mapping) and set(value) == {UNNAMED}:
        value = value[UNNAMED]
    return {"/".join(path): offset for path, offset in _leaves(value, ())}


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            yield path, value
            return
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, inner in sorted(value.items()):
        # A source is usually named after its one topic: the name is shown once.
        yield from _leaves(inner, path if path[-1:] == (str(name),) else (*path, str(name)))


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str).replace('"', "").replace("\\", "")
