"""What Dags and the command line are given: the contract's shapes, from real tables."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

import pytest
import structlog

from lakeward.cli.app import main
from lakeward.platform.runtime import Home
from lakeward.registry import maintenance, streams
from lakeward.tables import run
from lakeward.tables.observation import known_profiles

HEALTH = {
    "table", "format", "files", "small_files", "size_bytes", "delete_files", "manifests", "snapshots", "metadata_files",
    "last_maintenance", "due", "readers", "advice",
}  # fmt: skip


@pytest.fixture
def command(site, tmp_path, monkeypatch, capsys):
    """Runs `lakeward ...` in this process; its exit code, what stood on stdout (parsed), and on stderr."""
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.runtime_file.write_text(site.runtime.model_dump_json())
    monkeypatch.setenv("LAKEWARD_REGISTRY_URL_FILE", str(site.runtime.registry_url_file))

    def call(*arguments: str, form: str = "json"):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*arguments, "-o", form, "--home", str(home.root), "--project", str(site.project.root)])
        said = capsys.readouterr()
        return end.value.code, json.loads(said.out) if form == "json" and said.out else said.out, said.err

    yield call
    structlog.reset_defaults()


def test_observing_registers_tables_and_tells_what_is_due(site, make_table):
    table, quiet = make_table(), make_table()
    table.append(times=5)
    seen = run.observe(site.runtime, site.project, [table.name, quiet.name, "maintained.gone"])
    assert seen["due"] == [table.name]
    assert list(seen["errors"]) == ["maintained.gone"]
    by_name = {each["table"]: each for each in seen["tables"]}
    assert (by_name[table.name]["files"], by_name[table.name]["small_files"]) == (10, 10)
    with site.registry() as connection:
        assert maintenance.all_tables(connection)[table.name].location == site.load(table.name).metadata.location
        assert maintenance.newest_plan(connection, table.name)["actions"][0]["action"] == "compact"


def test_a_table_nobody_wrote_to_is_looked_at_without_reading_manifests(site, make_table, monkeypatch):
    from pyiceberg.manifest import ManifestFile

    table = make_table()
    table.append(times=5)
    first = run.observe(site.runtime, site.project, [table.name])
    with site.registry() as connection:
        kept = maintenance.newest_facts(connection)[table.name].at
        assert known_profiles(connection)[table.name].files == 10

    def unread(*_: object, **__: object) -> None:
        raise AssertionError("a manifest was read")

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", unread)
    begun = perf_counter()
    again = run.observe(site.runtime, site.project, [table.name])
    print(f"due-check of an unchanged table: {(perf_counter() - begun) * 1000:.0f} ms")
    assert [each["files"] for each in again["tables"]] == [each["files"] for each in first["tables"]]
    with site.registry() as connection:
        assert maintenance.newest_facts(connection)[table.name].at == kept


def test_observing_blocks_a_stream_whose_rows_were_rolled_back(site, make_table, stream):
    table, name = make_table(), stream()
    table.append()
    early = table.head()
    table.append()
    table.put_position(name, table.head())
    table.sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {early.snapshot_id})")
    run.observe(site.runtime, site.project, [table.name])
    with site.registry() as connection:
        assert (streams.get(connection, name).blocked or {})["reason"] == "rolled-back"


def test_the_commands_speak_the_contract(command, make_table):
    table = make_table()
    table.append(times=5)
    code, health, _ = command("tables", "health", table.name)
    assert (code, [each["table"] for each in health["tables"]]) == (0, [table.name])
    assert set(health["tables"][0]) >= HEALTH
    assert health["tables"][0]["due"] == ["compact", "expire"]
    code, plans, _ = command("tables", "plan", table.name)
    assert (code, set(plans["plans"][0])) == (0, {"table", "actions", "not_planned"})
    code, dry, _ = command("tables", "maintain", table.name, "--dry-run")
    assert (code, dry["actions"], dry["plan"]["actions"][0]["files"]) == (0, [], 10)
    code, done, _ = command("tables", "maintain", table.name, "--actions", "compact,expire")
    assert (code, [each["result"] for each in done["actions"]]) == (0, ["done", "done"]), done
    assert set(done["actions"][0]) == {
        "action", "result", "before", "after", "change", "duration_s", "cpu_s", "verified", "why",
    }  # fmt: skip
    code, text, _ = command("tables", "plan", table.name, form="table")
    assert (code, "not due  compact" in text) == (0, True)


def test_an_unknown_table_or_action_is_reported_with_the_known_ones(command, make_table):
    table = make_table()
    code, _, said = command("tables", "maintain", "maintained.nope")
    assert (code, "Table maintained.nope does not exist" in said, table.name in said) == (2, True, True)
    code, _, said = command("tables", "maintain", table.name, "--actions", "vacuum")
    assert (code, "Action vacuum does not exist" in said) == (2, True)
    code, _, said = command("tables", "maintain", table.name, "--actions", "restore")
    assert (code, "lakeward tables restore" in said) == (2, True)


def test_refused_expiry_ends_with_the_code_of_a_refusal(command, make_table, stream):
    table, name = make_table(), stream()
    table.append(times=2)
    early = table.head()
    table.append()
    table.put_position(name, table.head())
    table.sql(f"CALL lake.system.rollback_to_snapshot('{table.name}', {early.snapshot_id})")
    code, done, _ = command("tables", "maintain", table.name, "--actions", "expire")
    assert (code, done["actions"][0]["result"]) == (4, "refused")


def test_orphans_of_a_table_spark_writes_go_by_hand_and_every_row_stays(command, site, make_table):
    rules = "    orphans: {older_than: 1ms, max_share: 0.9}\n"
    site.project.tables_file.write_text(site.project.tables_file.read_text() + rules)
    table = make_table(**{"write.delete.mode": "merge-on-read"})
    table.sql("INSERT INTO {t} SELECT id, 'EWR', timestamp'2013-01-15 10:00:00' FROM range(50)")
    table.sql("DELETE FROM {t} WHERE id = 7")
    folder = Path(site.load(table.name).metadata.location.removeprefix("file:"))
    left = folder / "data" / "origin=EWR" / "left.parquet"
    left.write_bytes(next(folder.glob("data/**/*.parquet")).read_bytes())
    (left.parent / ".left.parquet.crc").write_bytes(b"crc")
    code, shown, _ = command("tables", "maintain", table.name, "--actions", "orphans", "--dry-run")
    assert (code, shown["plan"]["actions"][0]["files"], shown["actions"][0]["result"]) == (0, 1, "skipped"), shown
    code, done, _ = command("tables", "maintain", table.name, "--actions", "orphans")
    assert (code, [each["result"] for each in done["actions"]]) == (0, ["done"]), done
    assert done["actions"][0]["after"]["sample"] == ["data/origin=EWR/left.parquet"]
    assert list(left.parent.glob("*left*")) == list(left.parent.glob(".left*")) == []
    table.sql("REFRESH TABLE {t}")
    assert table.rows() == 49
    code, told, _ = command("tables", "history", table.name, form="table")
    assert (code, "orphans" in told) == (0, True)


def test_a_table_that_keeps_every_metadata_file_is_advised_to_let_old_ones_go(command, site, make_table):
    site.project.tables_file.write_text(site.project.tables_file.read_text() + "    metadata: {previous_versions: 3}\n")
    table = make_table()
    table.append(times=6)
    folder = Path(site.load(table.name).metadata.location.removeprefix("file:")) / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 7
    code, done, said = command("tables", "maintain", table.name, "--actions", "metadata")
    assert (code, [each["result"] for each in done["actions"]]) == (0, ["done"]), (done, said)
    assert len(list(folder.glob("*.metadata.json"))) == 4
    table.append()
    assert len(list(folder.glob("*.metadata.json"))) == 4, "and so it stays, whoever commits"
    assert table.rows() == 42
    _, told, _ = command("tables", "why", table.name)
    assert [each["why"] for each in told["plan"]["not_planned"] if each["action"] == "metadata"] == [
        "4 metadata files, the oldest is deleted with each commit"
    ]


def test_sql_reads_and_writes_only_when_allowed(command, make_table):
    table = make_table()
    table.append()
    query = f"SELECT id, ts, named_struct('a', id) s FROM {table.name} ORDER BY id LIMIT 1"
    code, answer, _ = command("sql", query)
    assert (code, answer["columns"]) == (0, ["id", "ts", "s"])
    assert answer["rows"] == [[0, "2013-01-15T10:00:00.000Z", {"a": 0}]]
    code, _, said = command("sql", f"DELETE FROM {table.name} WHERE id = 1")
    assert (code, "may change data" in said, table.rows()) == (4, True, 6)
    assert command("sql", f"DELETE FROM {table.name} WHERE id = 1", "--write")[0] == 0
    assert table.rows() == 5
    code, _, said = command("sql", "SELECT * FROM maintained.nowhere")
    assert (code, "Spark refused" in said, "JVM stacktrace" in said) == (2, True, False)
