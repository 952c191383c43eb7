"""The first line of the page, and which operations it offers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakeward.web.actions import offered
from lakeward.web.streams import Headline, headline

NOW = datetime(2026, 11, 26, 17, 2, tzinfo=UTC)


def row(name: str, state: str, *, hours: float = 3, why: str = "a reason") -> Any:
    return {"id": name, "state": state, "since": NOW - timedelta(hours=hours), "why": why}


def first(*rows: Any, unsupervised: str | None = None) -> Headline:
    return headline(rows, NOW, unsupervised)


def test_all_is_well_since_the_last_one_became_well() -> None:
    assert first(row("a", "healthy", hours=9), row("b", "healthy")) == {
        "level": "ok", "text": "All 2 streams are healthy since 2026-11-26 14:02 UTC (3 h)",
    }  # fmt: skip
    text = first(row("a", "healthy"), row("c", "stopped"))["text"]
    assert text == "The stream is healthy since 2026-11-26 14:02 UTC (3 h); 1 stream stopped on request"


def test_the_worst_stream_is_named_with_its_reason() -> None:
    found = first(row("a", "blocked", why="records are gone"), row("b", "stalled"), row("c", "healthy"))
    assert found == {
        "level": "trouble",
        "text": "a is BLOCKED since 2026-11-26 14:02 UTC (3 h): records are gone, and 1 other stream in trouble",
    }


@pytest.mark.parametrize(
    ("rows", "unsupervised", "level"),
    [
        ([], None, "empty"),
        ([row("a", "healthy")], "no pass for 4 min", "trouble"),
        ([row("a", "lagging"), row("b", "healthy")], None, "warning"),
        ([row("a", "starting")], None, "warning"),
        ([row("a", "stopped")], None, "ok"),
        ([row("a", "completed")], None, "ok"),
        ([row("a", "unknown")], None, "trouble"),
    ],
)
def test_levels(rows: list[Any], unsupervised: str | None, level: str) -> None:
    assert first(*rows, unsupervised=unsupervised)["level"] == level


def document(state: str, **values: Any) -> Any:
    nothing = dict.fromkeys(("next", "failure", "pending_generation", "stable_generation"))
    return {"state": state, **nothing, **values}


def ops(found: Any) -> list[str]:
    return [action["op"] for action in offered(found)]


def test_what_next_says_is_the_first_button() -> None:
    found = offered(document("blocked", next='lakeward streams recover flights --comment "..."'))
    assert (found[0]["op"], found[0]["primary"]) == ("recover", True)
    assert not any(action["primary"] for action in found[1:])
    assert ops(document("blocked", next="lakeward streams rebuild flights"))[0] == "start"


def test_operations_that_make_no_sense_are_not_offered() -> None:
    assert ops(document("healthy")) == ["restart", "stop"]
    assert ops(document("stopped")) == ["start", "recover", "reset"]
    assert ops(document("stopping")) == []
    assert "upgrade" in ops(document("healthy", pending_generation=2))
    assert "rollback" in ops(document("healthy", stable_generation=1))
    failed = {"class": "data", "error": "e", "batch_id": 7, "offsets": None, "at": None}
    assert "skip_batch" in ops(document("blocked", failure=failed))
    assert "skip_batch" not in ops(document("blocked", failure={**failed, "batch_id": None}))


def test_what_waits_for_an_approval_says_so() -> None:
    found = {action["op"]: action for action in offered(document("stopped"))}
    assert (found["reset"]["approval"], found["reset"]["needs"]) == (True, ("to",))
    assert not found["start"]["approval"]
