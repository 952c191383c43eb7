"""`lakeward deploy` as people call it, against a real registry."""

from __future__ import annotations

import getpass
import os

from lakeward.cli.deploy import author
from lakeward.registry import generations, streams

KEYS = {"stream", "change", "checkpoint_compatible", "why", "generation"}


def test_a_plan_says_what_would_happen_and_touches_nothing(site):
    answer = site.lakeward("deploy", "--plan", "-o", "json")
    assert answer.code == 0
    changes = {change["stream"]: change for change in answer.json["changes"]}
    assert set(changes) == {"flights", "departures_hourly", "delay_alerts"}
    assert all(set(change) == KEYS | {"table_changes", "readers"} for change in changes.values())
    assert all(change["table_changes"] == [] for change in changes.values()), "none of them may change its table"
    assert {change["generation"] for change in changes.values()} == {2}
    assert "nothing was changed" in answer.err
    with site.registry() as connection:
        assert all(stream.generation == 1 for stream in streams.all_streams(connection))
        assert generations.get(connection, "flights", 2) is None


def test_the_topic_moved_so_the_checkpoint_does_not_fit_and_nothing_is_taken(site):
    answer = site.lakeward("deploy")
    assert answer.code == 0
    assert "no longer reads" in answer.out
    with site.registry() as connection:
        row = streams.get(connection, "flights")
        assert (row.generation, row.pending_generation) == (1, 2)


def test_a_user_without_a_name_is_named_by_number(monkeypatch):
    for variable in ("LAKEWARD_AUTHOR", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 654_321)  # as in a container; nobody's number here
    assert author() == "uid 654321"


def test_the_author_is_named_by_ci_or_by_the_system(monkeypatch):
    monkeypatch.delenv("LAKEWARD_AUTHOR", raising=False)
    assert author() == getpass.getuser()
    monkeypatch.setenv("LAKEWARD_AUTHOR", "the nightly pipeline")
    assert author() == "the nightly pipeline"
