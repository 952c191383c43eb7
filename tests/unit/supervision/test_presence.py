from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakeward.platform.runtime import Project
from lakeward.registry import heartbeats
from lakeward.registry.heartbeats import Heartbeat
from lakeward.supervision import presence
from lakeward.supervision.presence import State, supervision_present

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def newest(age_s: float) -> Heartbeat:
    return Heartbeat("reconcile", NOW - timedelta(seconds=age_s), 0.4, {}, age_s)


def test_a_pass_that_succeeded_lately_supervises() -> None:
    judged = supervision_present(newest(180.0), NOW, NOW)
    assert (judged.state, judged.missing, judged.why, judged.next) == (State.OK, False, "", "")


def test_a_pass_too_long_ago_does_not_and_says_what_that_means() -> None:
    judged = supervision_present(newest(181.0), NOW, NOW)
    assert (judged.state, judged.missing, judged.since) == (State.STALE, True, NOW - timedelta(seconds=181))
    assert "no reconcile pass has succeeded for 3 min" in judged.why
    assert "failed streams are not restarted" in judged.why
    assert judged.next


def test_the_first_pass_is_awaited_and_then_missed() -> None:
    waited = [supervision_present(None, NOW - timedelta(seconds=age), NOW) for age in (10, 180, 181)]
    assert [item.state for item in waited] == [State.AWAITED, State.AWAITED, State.NEVER]
    assert "no stream is started or restarted" in waited[-1].why


def test_where_nothing_is_to_run_nobody_has_to_supervise() -> None:
    assert supervision_present(None, None, NOW).state is State.OK


def test_a_project_without_dags_is_never_supervised_and_that_is_known_at_once(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    for _ in range(2):  # without the folder, and with an empty one
        judged = supervision_present(None, NOW, NOW, dags=dags)
        assert judged.state is State.NEVER
        assert f"{dags} has no Dag file" in judged.why
        assert str(dags) in judged.next
        dags.mkdir(exist_ok=True)
    (dags / "lakeward_streams.py").touch()
    assert supervision_present(None, NOW, NOW, dags=dags).state is State.AWAITED


@pytest.mark.parametrize(("tick", "state"), [(None, State.NEVER), (newest(5.0), State.STALE)])
def test_a_paused_dag_supervises_nothing_from_now_on(tick: Heartbeat | None, state: State) -> None:
    judged = supervision_present(tick, NOW, NOW, paused=True)
    assert judged.state is state
    assert "because the Dag streams_reconcile is paused" in judged.why
    assert "unpause" in judged.next


def test_the_registry_gives_the_facts(connected, deployed, tmp_path: Path) -> None:
    with connected() as connection:
        assert presence.read(connection).state is State.OK, "nothing is deployed"
    deployed("flights")
    with connected() as connection:
        assert presence.read(connection).state is State.AWAITED
        assert presence.read(connection, Project(tmp_path)).state is State.NEVER
        heartbeats.record(connection, "reconcile", duration_s=0.1)
    with connected() as connection:
        assert presence.read(connection).state is State.OK
