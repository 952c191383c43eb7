from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakeward.quality.verdicts.verdict import Check, State, Verdict, verdict
from lakeward.quality.verdicts.waivers import ActiveWaiver


def check(state: State = State.FAIL, severity: str = "warning", on_fail: str = "record", waived: bool = False) -> Check:
    excuse = ActiveWaiver(datetime(2026, 12, 1, tzinfo=UTC), "ada", "known") if waived else None
    return Check("id", "expect_x", severity, state, on_fail=on_fail, excuse=excuse)


@pytest.mark.parametrize(
    ("severity", "on_fail", "expected"),
    [
        ("info", "record", "pass"),
        ("info", "warn", "warn"),
        ("info", "hold", "hold"),
        ("warning", "record", "warn"),
        ("warning", "warn", "warn"),
        ("warning", "hold", "hold"),
        ("critical", "record", "hold"),
        ("critical", "warn", "hold"),
        ("critical", "hold", "hold"),
        ("info", "quarantine", "hold"),
    ],
)
def test_the_stronger_of_severity_and_on_fail_decides(severity: str, on_fail: str, expected: str) -> None:
    assert verdict([check(severity=severity, on_fail=on_fail), check(State.PASS)]) == expected
    assert verdict([check(State.PASS, severity, on_fail), check(State.SKIPPED, severity, on_fail)]) == "pass"


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_an_engine_error_is_never_a_pass(severity: str) -> None:
    assert verdict([check(State.ERROR, severity), check(severity="critical")]) is Verdict.ERROR


def test_a_waived_check_holds_nothing_and_what_is_published_is_marked() -> None:
    assert verdict([check(severity="critical", waived=True)]) is Verdict.WARN
    assert verdict([check(State.ERROR, "critical", waived=True)]) is Verdict.WARN
    assert verdict([check(severity="info", waived=True)]) is Verdict.PASS
    assert verdict([check(severity="critical", waived=True), check(severity="critical")]) is Verdict.HOLD
    assert verdict([check(State.PASS, "critical", waived=True)]) is Verdict.PASS


def test_only_pass_and_warn_publish() -> None:
    assert [each.value for each in Verdict if each.publishes] == ["pass", "warn"]
