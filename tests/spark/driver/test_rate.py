"""Generated rows land once, also when a batch runs twice and with state."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


@pytest.mark.parametrize(
    "steps",
    [
        ("after-publish",),
        pytest.param(
            ("after-publish", "before-return"),
            marks=pytest.mark.campaign(held_by="test_generated_rows_land_once_over_restarts"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_generated_rows_land_once_over_restarts(lab: Any, steps: tuple[str, ...]) -> None:
    document = lab.spec("none", source={"rate": {"rows_per_second": 50}}, rules={"not_seven": "value != 7"})
    document.pop("decode")

    def die() -> None:
        raise RuntimeError("died")

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    lab.run(document, 60)
    lab.run(document, 60)
    landed = sorted(row["value"] for row in lab.rows())
    assert landed == [value for value in range(len(landed) + 1) if value != 7], "each once, none left out"
    assert len(lab.rows("q")) == 1


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_landing.py::test_windows_land_once_final_late_rows_are_counted_and_bad_ones_kept"
)
def test_windows_of_generated_rows_are_counted(lab: Any) -> None:
    document = lab.spec(
        "none",
        source={"rate": {"rows_per_second": 20}},
        watermark={"column": "timestamp", "delay": "1s"},
        transform={"sql": "SELECT window(timestamp, '1 second').start AS at, count(*) AS n FROM source "
                          "GROUP BY window(timestamp, '1 second')"},
    )  # fmt: skip
    document.pop("decode")
    running = lab.start(document)
    lab.until("three windows", lambda: sum(done.outcome.landed for done in lab.done) >= 3)
    assert running.stop(60)
    whole = [row["n"] for row in lab.rows()]
    assert len(whole) == sum(done.outcome.landed for done in lab.done)
    assert sum(whole) <= sum(done.consumed for done in lab.done)
    assert max(whole) == 20
