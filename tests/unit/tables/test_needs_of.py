"""What the registry and a table's own properties forbid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import delta_log

from lakeward.connectors.delta import state
from lakeward.registry import verifications
from lakeward.spec.model.suite import POINTER_OF
from lakeward.tables.facts import Thresholds
from lakeward.tables.needs import needs_of, read_registry
from lakeward.tables.observe.delta import table_facts


def test_a_table_that_shows_what_is_proven_of_another_is_left_alone(registry: Any, facts: Any, chain: Any, now) -> None:
    around = read_registry(registry)
    plain, _ = needs_of(registry, facts(chain(1)), around, now, has_suite=False)
    shown, _ = needs_of(registry, facts(chain(1), **{POINTER_OF: "nyc.delays"}), around, now, has_suite=False)
    assert plain.forbidden == "" and "of nyc.delays" in shown.forbidden


def prove(registry: Any, table: str, version: int, commit: str) -> None:
    """A run that proved a version, as it is kept."""
    run = {
        "run": uuid4().hex, "table": table, "suite": "s", "scope": "increment", "at": datetime.now(UTC),
        "from_snapshot": None, "to_snapshot": version, "to_sequence": version, "to_commit": commit, "verdict": "pass",
        "first_bad_snapshot": None, "verified_snapshot": version, "batches": [], "spark_jobs": 0, "duration_s": 0.0,
        "note": "", "cpu_s": None,
    }  # fmt: skip
    verifications.record(registry, run, [])


def test_vacuum_and_log_wait_for_the_proven_version_of_the_delta_table_that_is_there(
    registry: Any, tmp_path: Path
) -> None:
    name = f"nyc.{uuid4().hex[:8]}"
    delta_log.commit(tmp_path, 0, delta_log.table(""))
    for version in range(1, 6):
        delta_log.commit(tmp_path, version, delta_log.add(f"f{version}", 1))

    def kept(*, has_suite: bool = True) -> list[str]:
        read = state.read(tmp_path)
        assert read is not None
        table = table_facts(name, read, lambda size, properties: Thresholds(9, 9, 9))
        moment = datetime.fromtimestamp(delta_log.START_MS / 1000, UTC) + timedelta(days=8)
        needs, _ = needs_of(registry, table, read_registry(registry), moment, has_suite=has_suite)
        return [each.why for each in needs.clamps if each.who == "quality"]

    assert (kept(), kept(has_suite=False)) == (["no version in its log is proven"], [])
    prove(registry, name, 5, "another/t5")
    assert kept() == ["no version in its log is proven"], "of a table that was there before"
    prove(registry, name, 2, "u/t2")
    prove(registry, name, 4, "u/t4")
    assert kept() == ["verified is at version 4"]
    restore = {"operation": "RESTORE", "operationParameters": {"version": 3, "timestamp": None}}
    delta_log.commit(tmp_path, 6, {"commitInfo": restore}, delta_log.remove("f4"), delta_log.remove("f5"))
    assert kept() == ["verified is at version 2"], "the restore left version 4 behind"
