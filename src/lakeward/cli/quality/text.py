"""A check run as text for a person: failing checks, observed values, first bad snapshot, samples, verified, next
command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lakeward.platform.text import minute
from lakeward.quality.results.records import CheckDocument, RunDocument, noun_of
from lakeward.quality.results.text import observed_text
from lakeward.quality.results.trend import Trend
from lakeward.quality.verdicts.waivers import named
from lakeward.registry.verifications import LandedBatches

_WORDS = {"pass": "passed", "warn": "passed with warnings", "hold": "HELD", "error": "NOT CHECKED"}


def event_text(text: str, fields: Mapping[str, Any]) -> str:
    """An event of a run as one line: its text and its fields. A line of the run's log is a whole sentence already."""
    if text.startswith(f"{fields.get('table')}: "):
        return text
    shown = [f"{name}={value}" for name, value in fields.items() if value is not None]
    return f"{text}   {' '.join(shown)}" if shown else text


def run_text(result: RunDocument) -> str:
    """The run as text; `result` is the contract's JSON of `quality run` or `quality show`."""
    noun = noun_of(result)
    lines = [
        f"{result['table']}: {_WORDS[result['verdict']]}   run {result['run']}   {result['duration_s'] or 0:.1f} s"
    ]
    lines.append(f"  rows of   {_range(result)}")
    if result.get("note"):
        lines.append(f"  note      {result['note']}")
    names = _names(result["checks"])
    ordered = sorted(result["checks"], key=lambda check: _ORDER.index(check["state"]))
    fine = [check for check in ordered if check["state"] not in _TROUBLE]
    more = fine[PASSES:] if len(fine) > PASSES + 1 else []
    listed = ordered[: len(ordered) - len(more)]
    width = max((len(names[check["id"]]) for check in listed), default=0)
    for check in listed:
        text = f"  {check['state']:<7} {check['severity']:<8} {names[check['id']]:<{width}}  {_found(check)}"
        lines.append(text.rstrip())
        if check["state"] == "fail":
            lines += [f"            {_row(row)}" for row in check["sample"][:3]]
            if check.get("why"):
                lines.append(f"            why: {check['why']}")
    if more:
        counts = Counter(check["state"] for check in more)
        parts = " and ".join(f"{count} {state}" for state, count in counts.items())
        lines.append(f"  and       {len(more)} more checks ({parts}); all of them: -o json")
    if result["first_bad_snapshot"] is not None:
        lines.append(f"  since     {noun} {result['first_bad_snapshot']}{_batches(result.get('first_bad_batches'))}")
    for waiver in result.get("waivers") or ():
        text = f"{waiver['name']} until {minute(waiver['until'])} by {waiver['author']}: {waiver['reason']}"
        lines.append(f"  waived    {text}")
    verified = result["verified_snapshot"]
    if result["verdict"] in ("pass", "warn"):
        lines.append(f"  verified  {f'{noun} {verified}' if verified is not None else 'nothing yet'}")
    else:
        readers = f"readers stay on verified {noun} {verified}" if verified is not None else "nothing yet"
        lines.append(f"  verified  {readers}")
    if result.get("next"):
        lines.append(f"  next      {result['next']}")
    return "\n".join(lines)


_ORDER = ("error", "fail", "pass", "skipped")
_TROUBLE = ("error", "fail")
PASSES = 40
"""Checks without trouble that are listed; more of them are counted."""


def _names(checks: Sequence[CheckDocument]) -> dict[str, str]:
    """Check id -> its name, with the id where several checks of the run have one name."""
    counts = Counter(check_name(check) for check in checks)
    return {
        check["id"]: check_name(check) + (f" {check['id']}" if counts[check_name(check)] > 1 else "")
        for check in checks
    }


def _range(result: RunDocument) -> str:
    start, end = result["from_snapshot"], result["to_snapshot"]
    noun = noun_of(result)
    text = f"{noun} {end}" if start is None else f"{noun}s {start} (exclusive) to {end}"
    range_ = result.get("range")
    if range_:
        text += f": {range_['why']}" + (f", {range_['rows']:,} rows" if range_["rows"] is not None else "")
    return text + _batches(result.get("batches"))


def _batches(batches: list[LandedBatches] | None) -> str:
    text = [f"{batch['stream']} seq {batch['from_seq']}-{batch['to_seq']}" for batch in batches or ()]
    return f"   ({', '.join(text)})" if text else ""


def check_name(check: CheckDocument | Trend) -> str:
    """The expectation with its columns, short."""
    return named(check["expectation"], check.get("kwargs") or {})


def _found(check: CheckDocument) -> str:
    if check["state"] in ("error", "skipped"):
        return str(check.get("error") or "")
    parts = []
    if check["unexpected_count"]:
        rows = f" of {check['rows']:,}" if check.get("rows") else ""
        parts.append(f"{check['unexpected_count']:,}{rows} rows fail")
    elif check["observed"] is not None:
        parts.append(observed_text(check["observed"]))
    if check.get("waived"):
        parts.append(_excuse(check))
    return ", ".join(parts)


def _excuse(check: CheckDocument) -> str:
    waiver = check.get("excuse") or {"until": str(check.get("waive_until")), "author": "the suite", "reason": ""}
    text = f"waived until {waiver['until']} by {waiver['author']}"
    return text + (f": {waiver['reason']}" if waiver["reason"] else "")


def _row(row: Any) -> str:
    return "  ".join(f"{key}={value}" for key, value in row.items()) if isinstance(row, dict) else str(row)
