"""On-call block: a stream's document as at most forty lines, always in the same order.

Line one is state and since when, line two whether data is lost, `next` what to do. Every line begins with its field
name. Ids and offsets are plain numbers and times are RFC 3339 in UTC, so that they can be searched for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakeward.platform.text import count, listed, rfc3339, size, span
from lakeward.registry.observations import WatchedPartition
from lakeward.supervision.report.document import Loss, StreamDocument
from lakeward.supervision.report.recent import RecentDocument
from lakeward.supervision.report.safety import show, show_range

MOST = 40
_RECENT, _TAIL = 7, 8
_WIDTH = 13
_SPARK_PHASES = ("addBatch", "commitBatch", "commitOffsets", "getBatch", "latestOffset", "queryPlanning", "walCommit")
"""Spark's names for the phases of a batch; Lakeward's phases are part of `addBatch`."""
_OURS_IN = "addBatch"
_SKEW = 0.5
"""A partition with more than this share of the waiting records is reported; of two partitions, one with 75 %."""


def block(report: StreamDocument, trouble: str | None = None) -> list[str]:
    """Render the block.

    Args:
        report: the document of a stream (`document.document`).
        trouble: the trouble when the report was requested, in a sentence; it may be over by now.
    """
    now: datetime = report["now"]
    lines = [_head(report, now, trouble), _line("data lost?", f"{_upper(report['data'])}: {report['data']['text']}")]
    lines += [_line(word, text) for word, text in _facts(report, now) if text]
    lines += _several("last 6 h", _recent(report, now))
    lines += [_line(word, text) for word, text in _doing(report) if text]
    room = min(_TAIL, MOST - len(lines))
    lines += _several("log tail", [_short(line) for line in report["log_tail"]][-room:] if room > 0 else [])
    return lines[:MOST]


def moment(at: datetime | str | None) -> str:
    """RFC 3339 in UTC, whole seconds."""
    if at is None:
        return "not known"
    if isinstance(at, str):
        return at
    return rfc3339(at, "seconds")


def _head(report: StreamDocument, now: datetime, trouble: str | None) -> str:
    state = str(report["state"]).upper()
    text = (
        f"{state} for {span((now - report['since']).total_seconds())}, since {moment(report['since'])}: {report['why']}"
    )
    if report["unsupervised"]:
        text = f"{text}; NOT SUPERVISED"
    return f"{report['id']} is {text}" if trouble is None else f"{report['id']}: {trouble}; now it is {text}"


def _upper(data: Loss) -> str:
    but = f", but {data['but']}" if data["but"] else ""
    return f"{str(data['lost']).upper()}{but}"


def _facts(report: StreamDocument, now: datetime) -> Iterator[tuple[str, str]]:
    yield "safe up to", _safe(report)
    yield "next batch", _next_batch(report)
    yield "at risk", _risk(report)
    yield "last commit", _landed(report)
    yield "lag", _lag(report)
    yield "skew", _skew(report["partitions"])
    yield "rates", _rates(report)
    yield "batch", _batch(report)
    yield "event time", _event_time(report)
    yield "state size", _state(report)
    yield "restarts", _restarts(report, now)
    yield "failure", _failure(report, now)
    yield "", _offsets(report)
    yield "identity", _identity(report, now)
    yield "differs", _differs(report)
    yield "supervised", f"NO: {report['unsupervised']}" if report["unsupervised"] else ""
    yield "no answer", "; ".join(report.get("unanswered", ()))


def _doing(report: StreamDocument) -> Iterator[tuple[str, str]]:
    links = report["links"]
    ui = links["spark_ui"] or f"none at the moment; lakeward streams ui {report['id']} opens its event logs"
    if report["driver"]["backend"] is None:
        ui = ""
    yield "spark ui", ui
    yield "log", f"{links['log']}   or: lakeward streams logs {report['id']}" if links["log"] else ""
    yield "runbook", f"{links['runbook']}#{report['state']}"
    if report["incident"]:
        opened = f"{report['incident']['id']}, open since {moment(report['incident']['opened_at'])}"
        yield "incident", f"{opened}: {report['incident']['text']}"
    yield "next", report["next_text"]
    yield "  effect", report["next_effect"]


def _safe(report: StreamDocument) -> str:
    safe = report["safe_to"]
    if safe is None:
        return "nothing has landed yet" if report["committed_at"] is None else "not known: no table records it"
    names = (
        ("seq", safe["seq"]),
        ("batch", safe["batch_id"] if _a_batch(safe["batch_id"]) else None),
        ("generation", safe["generation"]),
        ("snapshot", safe["snapshot_id"]),
    )
    ids = ", ".join(f"{word} {value}" for word, value in names if value is not None)
    by = "" if safe["by"] == "table" else " (by the registry's copy)"
    return f"{ids}{by}; all offsets below {show(safe['offsets'])}"


def _next_batch(report: StreamDocument) -> str:
    batch = report["next_batch"]
    if batch is None:
        return ""
    if not batch["again"]:
        number = f"batch {batch['batch_id']}: " if batch["batch_id"] is not None else ""
        return f"{number}new records from {show(batch['from'])}; no batch is repeated"
    now = report["state"] in ("healthy", "lagging")
    number = f"batch {batch['batch_id']} {'is running' if now else 'is repeated'}"
    if batch["landed"]:
        return f"{number}: it has landed already, and nothing is written twice"
    if batch["to"] is None:
        return f"{number}: from {show(batch['from'])}; it has not landed yet, and lands once"
    records = f" ({count(batch['records'], 'record')})" if batch["records"] is not None else ""
    tail = "" if now else "; it has not landed yet, and lands once"
    return f"{number}: {show_range(batch['from'], batch['to'])}{records}{tail}"


def _risk(report: StreamDocument) -> str:
    if report["at_risk"] is None:
        return f"not known: {report['lag_unknown'] or 'the source could not be asked'}"
    retention = span(report["source_retention_s"]) if report["source_retention_s"] is not None else "for ever"
    if report["at_risk_in_s"] is None:
        return f"no: the source keeps records {retention}" + (", and none waits" if report["lag_records"] == 0 else "")
    word = "YES" if report["at_risk"] else "no"
    return (
        f"{word}: the source keeps records {retention}, the oldest waits {span(report['lag_s'])}: "
        f"{span(report['at_risk_in_s'])} remain to land it"
    )


def _a_batch(number: int | None) -> bool:
    """Whether it is a batch's number: an operation that moved the position left -1."""
    return number is not None and number >= 0


def _landed(report: StreamDocument) -> str:
    if report["committed_at"] is None:
        return "never"
    batch = f", batch {report['batch_id']}" if _a_batch(report["batch_id"]) else ""
    return f"{span(report['commit_age_s'])} ago, {moment(report['committed_at'])}{batch}, into {report['sink']}"


def _lag(report: StreamDocument) -> str:
    old = f" (measured {span(report['lag_age_s'])} ago)" if (report["lag_age_s"] or 0) > 15 else ""
    if report["lag_records"] is None:
        return _unknown_lag(report) + old
    if report["lag_records"] == 0:
        held = _held(report)
        return f"nothing {'that can be read ' if held else ''}waits at the source{held}{old}"
    parts = [f"{count(report['lag_records'], 'record')} {'waits' if report['lag_records'] == 1 else 'wait'}"]
    if report["lag_s"] is not None:
        parts.append(f"the oldest for {span(report['lag_s'])}")
    slope = report["lag_per_second"]
    if report["lag_trend"] is not None:
        rate = f" by {abs(slope):,.1f}/s" if slope is not None and report["lag_trend"] != "steady" else ""
        parts.append(f"{report['lag_trend']}{rate}")
    if report["catch_up_s"]:
        parts.append(f"caught up in {span(report['catch_up_s'])}")
    elif report["lag_trend"] in ("growing", "steady") and (outlook := _outlook(report)):
        parts.append(outlook)
    return ", ".join(parts) + _held(report) + old


def _unknown_lag(report: StreamDocument) -> str:
    """Why it is not known, and what waits at the sources that were measured."""
    if report["lag_unknown"] is None:
        return "not known"
    least = report["lag_at_least"]
    waits = f"; at the other sources {count(least, 'record')} {'waits' if least == 1 else 'wait'}" if least else ""
    return f"not known: {report['lag_unknown']}{waits}{_held(report)}"


def _held(report: StreamDocument) -> str:
    """What cannot be read before a transaction of a producer ends."""
    if not report["held_records"]:
        return ""
    waits = "waits" if report["held_records"] == 1 else "wait"
    since = f", the oldest for {span(report['held_s'])}" if report["held_s"] is not None else ""
    return (
        f"; up to {count(report['held_records'], 'record')} {waits} behind an open transaction{since}: "
        "the producer has to commit or abort it"
    )


def _outlook(report: StreamDocument) -> str:
    """The outlook for a lag that does not fall; empty for one that is within its limits and no trend."""
    if report["state"] == "healthy" and report["lag_trend"] == "steady":
        return ""
    if report["state"] in ("healthy", "lagging"):
        return "it does not catch up at this rate"
    if report["state"] == "blocked":
        return "blocked: no data is written until the cause is fixed"
    arriving, landed = report["arriving_per_second"], report["processed_rows_per_second"]
    if arriving and landed is not None and arriving >= landed:
        return "after the restart it does not catch up at its previous rate"
    return "it catches up after the restart"


def _skew(partitions: Sequence[WatchedPartition]) -> str:
    total = sum(part["lag_records"] for part in partitions)
    if len(partitions) < 2 or not total:
        return ""
    worst = sorted(partitions, key=lambda part: -part["lag_records"])[:2]
    if worst[0]["lag_records"] <= _SKEW * total * max(1.0, 3 / len(partitions)):
        return ""
    parts = [
        f"{part['topic']}/{part['partition']} has {part['lag_records']:,} of them "
        f"(landed to {part['position'] if part['position'] is not None else 'nothing'}, ends at {part['end']})"
        for part in worst
        if part["lag_records"]
    ]
    return "; ".join(parts)


def _rates(report: StreamDocument) -> str:
    pairs = (
        (report["arriving_per_second"], "arrive"),
        (report["processed_rows_per_second"], "were landed in the last batch"),
    )
    return ", ".join(f"{rate:,.0f}/s {word}" for rate, word in pairs if rate is not None)


def _batch(report: StreamDocument) -> str:
    if report["batch_duration_s"] is None:
        return ""
    every = ""
    if report["trigger_s"]:
        slow = report["batch_duration_s"] > report["trigger_s"]
        every = f", {'TOO SLOW for' if slow else 'with'} a trigger of {report['trigger_s']:g} s"
    phases = sorted(report["durations_s"].items(), key=lambda item: -item[1])
    shown = {name: f"{name} {value:.2f} s" for name, value in phases if name != "triggerExecution" and value >= 0.01}
    ours = [shown.pop(name) for name in list(shown) if name not in _SPARK_PHASES]
    if ours and _OURS_IN in shown:
        shown[_OURS_IN] += f" (of it {', '.join(ours[:3])})"
    word = "" if report["state"] in ("healthy", "lagging") else "the last one "
    return f"{word}took {report['batch_duration_s']:.1f} s{every}" + (
        f": {', '.join(list(shown.values())[:4])}" if shown else ""
    )


def _event_time(report: StreamDocument) -> str:
    parts = []
    if report["complete_through"]:
        parts.append(f"complete through {moment(report['complete_through'])}")
    if report["watermark"]:
        parts.append(f"watermark {report['watermark']}")
    if report["late_text"]:
        parts.append(f"late records: {report['late_text']}")
    return ", ".join(parts)


def _state(report: StreamDocument) -> str:
    if report["state_rows"] is None:
        return ""
    disk = f", {size(report['state_disk_bytes'])} on disk" if report["state_disk_bytes"] else ""
    return f"{count(report['state_rows'], 'row')}, {size(report['state_bytes'])} in memory{disk}"


def _restarts(report: StreamDocument, now: datetime) -> str:
    number = f"{count(report['restarts_24h'], 'failure')} in 24 h" if report["restarts_24h"] else "no failure in 24 h"
    if report["hold_until"]:
        return f"{number}; automatic restarts are held until {moment(report['hold_until'])}"
    if report["next_attempt_at"] is not None:
        wait = (report["next_attempt_at"] - now).total_seconds()
        when = f"in {span(wait)}" if wait > 0 else f"due {span(-wait)} ago"
        return f"{number}; attempt {report['attempts']} at {moment(report['next_attempt_at'])} ({when})"
    if report["state"] == "restarting":
        return f"{number} before this one"
    if report["state"] == "blocked":
        return f"{number}; no automatic restart: blocked until a person acts"
    return number


def _failure(report: StreamDocument, now: datetime) -> str:
    failure = report["failure"]
    if failure is None:
        return ""
    lines = str(failure["error"] or "").strip().splitlines()
    age = f" {span((now - failure['at']).total_seconds())} ago" if failure["at"] is not None else ""
    return f"{failure['class']}{age}: {_short(lines[0], 300) if lines else 'no text'}"


def _offsets(report: StreamDocument) -> str:
    failure = report["failure"]
    if failure is None or (failure["batch_id"] is None and not failure["offsets"]):
        return ""
    offsets = failure["offsets"]
    shown = _range(offsets) if isinstance(offsets, Mapping) else str(offsets or "")
    return f"in batch {failure['batch_id']}" + (f", offsets {shown}" if shown else "")


def _range(offsets: Mapping[str, Any]) -> str:
    """Render `{source: {start, end}}` or `{start: ..., end: ...}` by source, or one position for each source."""
    if offsets.keys() == {"start", "end"}:
        return show_range(offsets["start"], offsets["end"])
    if all(isinstance(ends, Mapping) for ends in offsets.values()):
        start = {name: ends["start"] for name, ends in offsets.items() if ends.get("start") is not None}
        return show_range(start, {name: ends["end"] for name, ends in offsets.items() if ends.get("end") is not None})
    return show(dict(offsets))


def _identity(report: StreamDocument, now: datetime) -> str:
    driver = report["driver"]
    generation = f"generation {report['generation']}"
    if report["pending_generation"]:
        generation += f" ({report['pending_generation']} waits for an upgrade)"
    if driver["backend"] is None:
        return f"{generation}; driver {driver['name']} was never launched"
    parts = [f"{generation}; driver {driver['name']} ({driver['backend']})"]
    parts.append(f"process {driver['pid']} on {driver['host']}" if driver["pid"] else "no process")
    if driver["app_id"]:
        parts.append(f"application {driver['app_id']}")
    parts.append(f"launched {moment(driver['launched_at'])}")
    beat = driver["heartbeat"]
    parts.append(f"last heartbeat {span((now - beat).total_seconds())} ago" if beat else "no heartbeat yet")
    if driver["exit_code"] is not None:
        parts.append(f"ended with exit code {driver['exit_code']}" if driver["exit_code"] else "ended normally")
    if driver["beside"]:
        parts.append(f"also runs {listed(driver['beside'])}")
    return ", ".join(parts)


def _differs(report: StreamDocument) -> str:
    if report["stable_generation"] is None:
        return ""
    what = ", ".join(report["differs"][:10]) or "nothing"
    more = f" and {len(report['differs']) - 10} more" if len(report["differs"]) > 10 else ""
    return f"from generation {report['stable_generation']}, the last stable one, in: {what}{more}"


def _recent(report: StreamDocument, now: datetime) -> list[str]:
    items = report["changed"]
    if not items:
        return ["nothing changed"]
    lines = [f"{moment(item['at'])} {_short(item['text'])}{_times(item)}" for item in items]
    if len(lines) > _RECENT:
        older = len(lines) - _RECENT + 1
        lines = [f"{older} more: lakeward streams events {report['id']}", *lines[older:]]
    return lines


def _times(item: RecentDocument) -> str:
    since = f" since {moment(item['first'])}" if item.get("first") else ""
    return f" ({item['times']} times{since})" if item["times"] > 1 else ""


def _several(word: str, texts: Sequence[str]) -> list[str]:
    return [_line(word if at == 0 else "", text) for at, text in enumerate(texts)]


def _line(word: str, text: str) -> str:
    return f"{word:<{_WIDTH}}{text}"


def _short(text: str, most: int = 200) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= most else line[: most - 1] + "…"
