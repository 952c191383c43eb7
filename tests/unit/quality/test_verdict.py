from __future__ import annotations

from datetime import date

import pytest

from lakeward.quality.verdict import Check, State, Verdict, is_waived, verdict


def check(state: State = State.FAIL, severity: str = "warning", on_fail: str = "record", waived: bool = False) -> Check:
    return Check("id", "expect_x", severity, state, on_fail=on_fail, waived=waived)


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


def test_waived_checks_do_not_count() -> None:
    assert verdict([check(severity="critical", waived=True), check(State.ERROR, waived=True)]) is Verdict.PASS


def test_only_pass_and_warn_publish() -> None:
    assert [each.value for each in Verdict if each.publishes] == ["pass", "warn"]


def test_a_waiver_holds_through_its_day() -> None:
    today = date(2026, 11, 21)
    assert is_waived(date(2026, 11, 21), today)
    assert not is_waived(date(2026, 11, 20), today)
    assert not is_waived(None, today)
