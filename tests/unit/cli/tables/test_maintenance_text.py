"""`lakeward tables why|readers|history|savings`: what is decided, who holds history, what was done."""

from __future__ import annotations

from lakeward.registry import maintenance


def test_the_decision_who_holds_history_and_the_ledger(site, landed):
    landed({0: 2, 1: 0}, rows=[(0, 0), (0, 1)])
    said = site.lakeward("-o", "json", "tables", "why", "nyc.flights")
    assert said.code == 0, said.err
    assert set(said.json) == {"table", "plan", "advice", "last"}
    assert said.json["last"] is None
    reasons = {each["action"]: each["why"] for each in said.json["plan"]["not_planned"]}
    assert set(reasons) == {"compact", "deletes", "manifests", "tags", "expire"}
    (due,) = said.json["plan"]["actions"]
    assert (due["action"], "commit.retry.num-retries is not set" in due["why"]) == ("metadata", True)

    pins = site.lakeward("-o", "json", "tables", "readers", "nyc.flights").json
    assert set(pins) == {"table", "readers", "pins", "refusals"}
    assert "staged batches" in [each["who"] for each in pins["pins"]]
    held = [each["snapshots"] for each in pins["pins"]]
    assert held == sorted(held, reverse=True)
    assert set(pins["pins"][0]) == {"kind", "who", "stream", "why", "since", "snapshots", "bytes", "next"}

    unknown = site.lakeward("tables", "history", "nyc.flights")
    assert unknown.code == 2
    assert "does not exist" in unknown.err

    held = site.lakeward("tables", "hold", "nyc.flights", "--for", "2h")
    assert held.code == 0, "also before the first maintenance"
    wrong = site.lakeward("tables", "hold", "nyc.flight", "--for", "2h")
    assert wrong.code == 2 and "nyc.flights" in wrong.err
    assert site.lakeward("tables", "unhold", "nyc.flights").code == 0

    with site.registry() as connection:
        maintenance.register(connection, "nyc.flights", format="iceberg", location="x", table_class="append-stream")
        number = maintenance.begin_action(
            connection, plan="p", table="nyc.flights", action="compact", session_id=None, before={"files": 9}
        )
        after = {"files": 1, "files_taken": 9, "files_given": 1}
        maintenance.finish_action(
            connection, number, result="done", verified=True, why="9 → 1 files rewritten", after=after, duration_s=2.0
        )
    assert "9 → 1 files. 9 → 1 files rewritten" in site.lakeward("tables", "why", "nyc.flights").out
    assert "9 → 1 files" in site.lakeward("tables", "history", "nyc.flights").out
    assert site.lakeward("-o", "json", "tables", "savings", "nyc.flights").json["files_removed"] == 8
    assert "files_taken - files_given" in site.lakeward("tables", "savings", "nyc.flights").out
