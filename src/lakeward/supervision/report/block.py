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


def block(found: StreamDocument, trouble: str | None = None) -> list[str]:
    """Render the block.

    Args:
        found: the document of a stream (`document.document`).
        trouble: the trouble when the report was requested, in a sentence; it may be over by now.
    """
    now: datetime = found["now"]
    lines = [_head(found, now, trouble), _line("data lost?", f"{_upper(found['data'])}: {found['data']['text']}")]
    lines += [_line(word, text) for word, text in _facts(found, now) if text]
    lines += _several("last 6 h", _recent(found, now))
    lines += [_line(word, text) for word, text in _doing(found) if text]
    room = min(_TAIL, MOST - len(lines))
    lines += _several("log tail", [_short(line) for line in found["log_tail"]][-room:] if room > 0 else [])
    return lines[:MOST]


def moment(at: datetime | str | None) -> str:
    """RFC 3339 in UTC, whole seconds."""
    if at is None:
        return "not known"
    if isinstance(at, str):
        return at
    return rfc3339(at, "seconds")


def _head(found: StreamDocument, now: datetime, trouble: str | None) -> str:
    state = str(found["state"]).upper()
    text = f"{state} for {span((now - found['since']).total_seconds())}, since {moment(found['since'])}: {found['why']}"
    return f"{found['id']} is {text}" if trouble is None else f"{found['id']}: {trouble}; now it is {text}"


def _upper(data: Loss) -> str:
    return str(data["lost"]).upper()


def _facts(found: StreamDocument, now: datetime) -> Iterator[tuple[str, str]]:
    yield "safe up to", _safe(found)
    yield "next batch", _next_batch(found)
    yield "at risk", _risk(found)
    yield "last commit", _landed(found)
    yield "lag", _lag(found)
    yield "skew", _skew(found["partitions"])
    yield "rates", _rates(found)
    yield "batch", _batch(found)
    yield "event time", _event_time(found)
    yield "state size", _state(found)
    yield "restarts", _restarts(found, now)
    yield "failure", _failure(found, now)
    yield "", _offsets(found)
    yield "identity", _identity(found, now)
    yield "differs", _differs(found)
    yield "supervised", f"NO: {found['unsupervised']}" if found["unsupervised"] else ""
    yield "no answer", "; ".join(found.get("unanswered", ()))


def _doing(found: StreamDocument) -> Iterator[tuple[str, str]]:
    links = found["links"]
    ui = links["spark_ui"] or f"its driver is gone; lakeward streams ui {found['id']} opens its event logs"
    if found["driver"]["backend"] is None:
        ui = ""
    yield "spark ui", ui
    yield "log", f"{links['log']}   or: lakeward streams logs {found['id']}" if links["log"] else ""
    yield "runbook", f"{links['runbook']}#{found['state']}"
    if found["incident"]:
        yield "incident", f"{found['incident']['id']}, open since {moment(found['incident']['opened_at'])}"
    yield "next", found["next_text"]
    yield "  effect", found["next_effect"]


def _safe(found: StreamDocument) -> str:
    safe = found["safe_to"]
    if safe is None:
        return "nothing has landed yet" if found["committed_at"] is None else "not known: no table records it"
    names = (
        ("seq", safe["seq"]),
        ("batch", safe["batch_id"]),
        ("generation", safe["generation"]),
        ("snapshot", safe["snapshot_id"]),
    )
    ids = ", ".join(f"{word} {value}" for word, value in names if value is not None)
    by = "" if safe["by"] == "table" else " (by the registry's copy)"
    return f"{ids}{by}; all offsets below {show(safe['offsets'])}"


def _next_batch(found: StreamDocument) -> str:
    batch = found["next_batch"]
    if batch is None:
        return ""
    if not batch["again"]:
        number = f"batch {batch['batch_id']}: " if batch["batch_id"] is not None else ""
        return f"{number}new records from {show(batch['from'])}; no batch is repeated"
    now = found["state"] in ("healthy", "lagging")
    number = f"batch {batch['batch_id']} {'is running' if now else 'is repeated'}"
    if batch["landed"]:
        return f"{number}: it has landed already, and nothing is written twice"
    if batch["to"] is None:
        return f"{number}: from {show(batch['from'])}; it has not landed yet, and lands once"
    records = f" ({count(batch['records'], 'record')})" if batch["records"] is not None else ""
    tail = "" if now else "; it has not landed yet, and lands once"
    return f"{number}: {show_range(batch['from'], batch['to'])}{records}{tail}"


def _risk(found: StreamDocument) -> str:
    if found["at_risk"] is None:
        return "not known: the source could not be asked"
    kept = span(found["source_retention_s"]) if found["source_retention_s"] is not None else "for ever"
    if found["at_risk_in_s"] is None:
        return f"no: the source keeps records {kept}" + (", and none waits" if found["lag_records"] == 0 else "")
    word = "YES" if found["at_risk"] else "no"
    return (
        f"{word}: the source keeps records {kept}, the oldest waits {span(found['lag_s'])}: "
        f"{span(found['at_risk_in_s'])} remain to land it"
    )


def _landed(found: StreamDocument) -> str:
    if found["committed_at"] is None:
        return "never"
    batch = f", batch {found['batch_id']}" if found["batch_id"] is not None else ""
    return f"{span(found['commit_age_s'])} ago, {moment(found['committed_at'])}{batch}, into {found['sink']}"


def _lag(found: StreamDocument) -> str:
    if found["lag_records"] is None:
        return "not known"
    old = f" (measured {span(found['lag_age_s'])} ago)" if (found["lag_age_s"] or 0) > 15 else ""
    if found["lag_records"] == 0:
        return f"nothing waits at the source{old}"
    parts = [f"{count(found['lag_records'], 'record')} {'waits' if found['lag_records'] == 1 else 'wait'}"]
    if found["lag_s"] is not None:
        parts.append(f"the oldest for {span(found['lag_s'])}")
    slope = found["lag_per_second"]
    if found["lag_trend"] is not None:
        rate = f" by {abs(slope):,.1f}/s" if slope is not None and found["lag_trend"] != "steady" else ""
        parts.append(f"{found['lag_trend']}{rate}")
    if found["catch_up_s"]:
        parts.append(f"caught up in {span(found['catch_up_s'])}")
    elif found["lag_trend"] in ("growing", "steady"):
        parts.append(_outlook(found))
    return ", ".join(parts) + old


def _outlook(found: StreamDocument) -> str:
    """The outlook for a lag that does not fall."""
    if found["state"] in ("healthy", "lagging"):
        return "it does not catch up at this rate"
    if found["state"] == "blocked":
        return "blocked: no data is written until the cause is fixed"
    arriving, landed = found["arriving_per_second"], found["processed_rows_per_second"]
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


def _rates(found: StreamDocument) -> str:
    pairs = (
        (found["arriving_per_second"], "arrive"),
        (found["processed_rows_per_second"], "were landed in the last batch"),
    )
    return ", ".join(f"{rate:,.0f}/s {word}" for rate, word in pairs if rate is not None)


def _batch(found: StreamDocument) -> str:
    if found["batch_duration_s"] is None:
        return ""
    every = ""
    if found["trigger_s"]:
        slow = found["batch_duration_s"] > found["trigger_s"]
        every = f", {'TOO SLOW for' if slow else 'with'} a trigger of {found['trigger_s']:g} s"
    phases = sorted(found["durations_s"].items(), key=lambda item: -item[1])
    shown = {name: f"{name} {value:.2f} s" for name, value in phases if name != "triggerExecution" and value >= 0.01}
    ours = [shown.pop(name) for name in list(shown) if name not in _SPARK_PHASES]
    if ours and _OURS_IN in shown:
        shown[_OURS_IN] += f" (of it {', '.join(ours[:3])})"
    word = "" if found["state"] in ("healthy", "lagging") else "the last one "
    return f"{word}took {found['batch_duration_s']:.1f} s{every}" + (
        f": {', '.join(list(shown.values())[:4])}" if shown else ""
    )


def _event_time(found: StreamDocument) -> str:
    parts = []
    if found["complete_through"]:
        parts.append(f"complete through {moment(found['complete_through'])}")
    if found["watermark"]:
        parts.append(f"watermark {found['watermark']}")
    if found["late_dropped"]:
        parts.append(f"{count(found['late_dropped'], 'row')} dropped as late")
    return ", ".join(parts)


def _state(found: StreamDocument) -> str:
    if found["state_rows"] is None:
        return ""
    disk = f", {size(found['state_disk_bytes'])} on disk" if found["state_disk_bytes"] else ""
    return f"{count(found['state_rows'], 'row')}, {size(found['state_bytes'])} in memory{disk}"


def _restarts(found: StreamDocument, now: datetime) -> str:
    number = f"{count(found['restarts_24h'], 'failure')} in 24 h" if found["restarts_24h"] else "no failure in 24 h"
    if found["hold_until"]:
        return f"{number}; automatic restarts are held until {moment(found['hold_until'])}"
    if found["next_attempt_at"] is not None:
        wait = (found["next_attempt_at"] - now).total_seconds()
        when = f"in {span(wait)}" if wait > 0 else f"due {span(-wait)} ago"
        return f"{number}; attempt {found['attempts']} at {moment(found['next_attempt_at'])} ({when})"
    if found["state"] == "restarting":
        return f"{number} before this one"
    if found["state"] == "blocked":
        return f"{number}; no automatic restart: blocked until a person acts"
    return number


def _failure(found: StreamDocument, now: datetime) -> str:
    failure = found["failure"]
    if failure is None:
        return ""
    lines = str(failure["error"] or "").strip().splitlines()
    age = f" {span((now - failure['at']).total_seconds())} ago" if failure["at"] is not None else ""
    return f"{failure['class']}{age}: {_short(lines[0], 300) if lines else 'no text'}"


def _offsets(found: StreamDocument) -> str:
    failure = found["failure"]
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


def _identity(found: StreamDocument, now: datetime) -> str:
    driver = found["driver"]
    generation = f"generation {found['generation']}"
    if found["pending_generation"]:
        generation += f" ({found['pending_generation']} waits for an upgrade)"
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


def _differs(found: StreamDocument) -> str:
    if found["stable_generation"] is None:
        return ""
    what = ", ".join(found["differs"][:10]) or "nothing"
    more = f" and {len(found['differs']) - 10} more" if len(found["differs"]) > 10 else ""
    return f"from generation {found['stable_generation']}, the last stable one, in: {what}{more}"


def _recent(found: StreamDocument, now: datetime) -> list[str]:
    items = found["changed"]
    if not items:
        return ["nothing changed"]
    lines = [f"{moment(item['at'])} {_short(item['text'])}{_times(item)}" for item in items]
    if len(lines) > _RECENT:
        older = len(lines) - _RECENT + 1
        lines = [f"{older} more: lakeward streams events {found['id']}", *lines[older:]]
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
