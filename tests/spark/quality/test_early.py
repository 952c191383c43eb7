"""From a check run to the counters of the next batch, and from their warning to the check's own answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakeward.cli.quality.text import run_text
from lakeward.registry import batches
from lakeward.supervision import advisory

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def test_a_warning_says_what_the_next_check_finds_and_is_over_with_it(table: Any) -> None:
    stream = table.name.replace(".", "_")

    def warned() -> list[dict[str, Any]]:
        with table.registry() as connection:
            return advisory.read(connection, table.name, datetime.now(UTC), [stream])

    table.append(20)
    table.check()
    with table.registry() as connection:
        known = advisory.counted_by(connection, table.name)
    assert [each.name for each in known.counted] == [
        "column_values_to_not_be_null(carrier)",
        "column_values_to_be_between(delay)",
    ]
    snapshot = table.append(30, bad=3, slow=2)
    nulls, slow = known.counted
    with table.registry() as connection:
        batches.record(
            connection, stream=stream, query_id="q", batch_id=7, seq=8, generation=1, snapshot_id=snapshot, landed=30,
            advisory={nulls.check: [3, 30], slow.check: [2, 30]},
        )  # fmt: skip
    said = {each["check"]: each["failing"] for each in warned()}
    assert len(said) == 2

    found = table.check()
    assert found["verdict"] == "hold"
    assert said == {each["id"]: each["unexpected_count"] for each in found["checks"]}
    assert warned() == [], "the check has decided"

    off = table.project / "expectations" / f"{table.name}.yaml"
    off.write_text(f"advisory: false\n{off.read_text()}")
    table.append(1)
    table.check()
    with table.registry() as connection:
        assert not advisory.counted_by(connection, table.name).counted
    shown = run_text(
        {**found, "advisory": [{"text": "w", "stream": "s"}], "in_stream": {"counted": 1, "left": {"x": ""}}}
    )
    assert "  advisory  w; landed by stream s" in shown
    assert "  in stream 1 of 2 checks are counted by while rows land" in shown
