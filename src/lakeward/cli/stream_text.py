"""`streams status` for people: the first lines of somebody on call, what is wrong first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakeward.cli.output import rfc3339
from lakeward.streams.words import count, span


def block(status: Mapping[str, Any], now: datetime) -> str:
    """The status of one stream in a few lines, each one thing: what, how far, landed, who, failures, risk, next."""
    lines = [f"{status['id']} is {status['state']} for {_ago(status['since'], now)}: {status['why']}"]
    lines += [f"  {name:<10} {text}" for name, text in _facts(status, now) if text]
    return "\n".join(lines)


def _facts(status: Mapping[str, Any], now: datetime) -> list[tuple[str, str]]:
    return [
        ("lag", _lag(status)),
        ("landed", _landed(status, now)),
        ("final", f"to event time {_moment(status['complete_through'])}" if status["complete_through"] else ""),
        ("speed", _speed(status)),
        ("state", _state(status)),
        ("driver", _driver(status, now)),
        ("version", _version(status)),
        ("restarts", _restarts(status)),
        ("failure", _failure(status)),
        ("data", _risk(status)),
        ("unknown", "; ".join(status.get("unanswered", ()))),
        ("next", status["next"] or ""),
    ]


def _lag(status: Mapping[str, Any]) -> str:
    if status["lag_records"] is None:
        return "not known"
    if status["lag_records"] == 0:
        return "nothing waits at the source"
    parts = [f"{count(status['lag_records'], 'record')} wait"]
    if status["lag_s"] is not None:
        parts.append(f"the oldest for {span(status['lag_s'])}")
    if status["lag_trend"]:
        parts.append(status["lag_trend"])
    if status["catch_up_s"]:
        parts.append(f"caught up in {span(status['catch_up_s'])}")
    return ", ".join(parts)


def _landed(status: Mapping[str, Any], now: datetime) -> str:
    if status["committed_at"] is None:
        return "nothing yet"
    where = f" as snapshot {status['snapshot_id']}" if status["snapshot_id"] else ""
    number = f"batch {status['batch_id']}" if status["batch_id"] is not None else "the last batch"
    return f"{number} {_ago(status['committed_at'], now)} ago{where}, into {status['sink']}"


def _speed(status: Mapping[str, Any]) -> str:
    if status["batch_duration_s"] is None:
        return ""
    every = f" of {status['trigger_s']:g} s" if status["trigger_s"] else ""
    rates = [
        f"{status[key]:,.0f}/s {word}"
        for key, word in (("arriving_per_second", "arrive"), ("processed_rows_per_second", "can be landed"))
        if status[key] is not None
    ]
    return ", ".join([f"a batch takes {status['batch_duration_s']:.1f} s{every}", *rates])


def _state(status: Mapping[str, Any]) -> str:
    if status["state_rows"] is None:
        return ""
    late = "" if status["late_dropped"] is None else f", {count(status['late_dropped'], 'row')} came too late"
    return f"{count(status['state_rows'], 'row')} held, watermark {status['watermark']}{late}"


def _driver(status: Mapping[str, Any], now: datetime) -> str:
    driver = status["driver"]
    if driver["backend"] is None:
        return f"{driver['name']}, never launched"
    where = f"process {driver['pid']} on {driver['host']}" if driver["pid"] else "no process"
    beat = f", last sign {_ago(driver['heartbeat'], now)} ago" if driver["heartbeat"] else ""
    return f"{driver['name']} ({driver['backend']}): {where}{beat}"


def _version(status: Mapping[str, Any]) -> str:
    waiting = status["pending_generation"]
    return f"generation {status['generation']}" + (f", {waiting} waits for an upgrade" if waiting else "")


def _restarts(status: Mapping[str, Any]) -> str:
    if not status["restarts_24h"]:
        return ""
    following = f"; next attempt {_moment(status['next_attempt_at'])}" if status["next_attempt_at"] else ""
    return f"{status['restarts_24h']} in 24 h{following}"


def _failure(status: Mapping[str, Any]) -> str:
    failure = status["failure"]
    if failure is None:
        return ""
    first = str(failure["error"] or "").strip().splitlines()
    where = f" (batch {failure['batch_id']})" if failure["batch_id"] is not None else ""
    return f"{failure['class']}: {first[0] if first else 'no text'}{where}"


def _risk(status: Mapping[str, Any]) -> str:
    if status["at_risk"] is None:
        return ""
    kept = span(status["source_retention_s"]) if status["source_retention_s"] is not None else "for ever"
    if status["at_risk"]:
        return f"AT RISK: the source keeps records {kept}, the oldest waits {span(status['lag_s'])}"
    return f"not at risk: the source keeps records {kept}"


def _ago(moment: datetime, now: datetime) -> str:
    return span((now - moment).total_seconds())


def _moment(moment: datetime | str) -> str:
    return rfc3339(moment) if isinstance(moment, datetime) else moment


def table(streams: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """`streams list`: one line a stream, never folded, the sentence last."""
    head = ("stream", "state", "for", "into", "why")
    rows = [
        (each["id"], each["state"], _ago(each["since"], now), each["sink"] or "-", each["why"] or "-")
        for each in streams
    ]
    return _columns([head, *rows]) if rows else "no streams"


def timeline(events: Sequence[Mapping[str, Any]]) -> str:
    """`streams events`: one line an event, oldest first."""
    rows = [(rfc3339(each["at"])[:19] + "Z", each["name"], each["kind"], each["text"]) for each in events]
    return _columns(rows) if rows else "no events"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )


def log_line(line: Mapping[str, Any]) -> str:
    """One line of a driver's JSON log: time, level, sentence, fields."""
    rest = {
        key: value
        for key, value in line.items()
        if key not in ("timestamp", "level", "event", "logger", "exception", "raw")
    }
    if "raw" in line:
        return str(line["raw"])
    fields = " ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in rest.items())
    head = f"{str(line.get('timestamp', ''))[:23]} {line.get('level', ''):<7} {line.get('event', '')}"
    return f"{head}  {fields}".rstrip()
