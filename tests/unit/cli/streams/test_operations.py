"""Operations that move a position, on a real broker, catalog and registry; the streams are stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from lakeward.connectors.commit_protocol.position import Position, key
from lakeward.connectors.iceberg.catalog import pyiceberg_properties
from lakeward.demo.flights import Record
from lakeward.demo.producer import Sender
from lakeward.registry import batches, changes, generations, operations, streams


def produce(site: Any, count: int) -> dict[int, int]:
    """Send records; where the partitions end now."""
    records = [Record(f"k{n}".encode(), b'{"password": "hunter2", "year": 2013}', "flight") for n in range(count)]
    Sender(site.runtime.kafka["lakeward_kafka"], site.topic).send(records, per_second=1e6)
    from lakeward.connectors.kafka import broker
    from lakeward.connectors.kafka.cluster import find

    return broker.end_offsets(find("lakeward_kafka", site.runtime), [site.topic])[site.topic]


def position(table: Any) -> Position:
    return Position.model_validate_json(table.refresh().properties[key("flights")])


def end_of(found: Position, site: Any) -> dict[int, int]:
    return {int(part): at for part, at in json.loads(found.end["flights"])[site.topic].items()}


def operate(site: Any, *arguments: str) -> Any:
    return site.lakeward("streams", *arguments, "-o", "json")


@pytest.fixture
def behind(site: Any, landed: Callable[..., Any]) -> tuple[Any, dict[int, int]]:
    """A table that holds all but the last two records of partition 0."""
    ends = produce(site, 20)
    rows = [(part, offset) for part, end in ends.items() for offset in range(end - (2 if part == 0 else 0))]
    return landed({part: end - (2 if part == 0 else 0) for part, end in ends.items()}, rows), ends


def test_a_reset_shows_exactly_what_it_skips_and_wants_a_yes_and_a_comment(site: Any, behind: Any) -> None:
    table, ends = behind
    before = position(table)
    shown = operate(site, "reset", "flights", "--to", "latest", "--dry-run")
    assert shown.code == 0
    assert (shown.json["result"], shown.json["skipped"], shown.json["read_again"]) == ("skipped", 2, 0)
    assert f"{site.topic}/0: 2 records skipped ({ends[0] - 2} to {ends[0] - 1})" in shown.err
    refused = operate(site, "reset", "flights", "--to", "latest", "--comment", "old news")
    assert refused.code == 4
    assert "needs a person's approval" in refused.err
    assert "2 records skipped" in refused.err
    assert operate(site, "reset", "flights", "--to", "latest", "--yes").code == 2
    assert position(table) == before


def test_a_reset_forward_counts_what_it_skipped_and_the_audit_says_so(site: Any, behind: Any) -> None:
    table, ends = behind
    answer = operate(site, "reset", "flights", "--to", "latest", "--yes", "--comment", "old news")
    assert answer.code == 0, answer.err
    after = position(table)
    assert (after.seq, after.query_id, after.batch, after.totals.skipped) == (4, "", -1, 2)
    assert end_of(after, site) == ends
    found = operate(site, "audit", "flights").json
    assert (found["missing"], found["skipped"], found["duplicates"]) == (0, 2, 0)
    with site.registry() as connection:
        row = streams.get(connection, "flights")
        kept = generations.get(connection, "flights", row.generation)
        change = changes.newest(connection, "stream", "flights")[0]
        asked = operations.newest(connection, "flights")[0]
    assert (row.generation, row.desired) == (2, "stopped")
    assert kept is not None
    assert kept.checkpoint.endswith("/flights.2")
    assert (change.comment, change.detail["before"]["seq"], change.detail["after"]["seq"]) == (
        "old news",
        3,
        4,
    )
    assert (asked.result, asked.approved_by) == ("done", change.author)


def test_reading_again_into_a_table_wants_the_exact_number_of_rows_that_land_twice(site: Any, behind: Any) -> None:
    table, ends = behind
    rows = sum(ends.values()) - 2
    arguments = ("reset", "flights", "--to", "earliest", "--yes", "--comment", "again")
    refused = operate(site, *arguments)
    assert refused.code == 4
    assert f"--accept-duplicates {rows}" in refused.err
    assert operate(site, *arguments, "--accept-duplicates", str(rows - 1)).code == 4
    assert position(table).seq == 3
    answer = operate(site, *arguments, "--accept-duplicates", str(rows))
    assert answer.code == 0, answer.err
    assert set(end_of(position(table), site).values()) == {0}


def test_a_reset_back_over_skipped_records_skips_them_no_more(site: Any, behind: Any) -> None:
    table, ends = behind
    assert operate(site, "reset", "flights", "--to", "latest", "--yes", "--comment", "a").code == 0
    file = site.home / "offsets.json"
    file.write_text(json.dumps({site.topic: {"0": ends[0] - 2}}))
    back = operate(site, "reset", "flights", "--to", str(file), "--yes", "--comment", "b")
    assert back.code == 0, back.err
    after = position(table)
    assert (after.skips, after.totals.skipped) == ((), 0)
    assert end_of(after, site) == {**ends, 0: ends[0] - 2}


def test_a_reset_to_a_time_goes_to_the_first_record_written_then(site: Any, behind: Any) -> None:
    _, ends = behind
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert operate(site, "reset", "flights", "--to", later, "--dry-run").json["skipped"] == 2
    early = operate(site, "reset", "flights", "--to", "2020-01-01T00:00:00Z", "--dry-run").json
    assert early["read_again"] == sum(ends.values()) - 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "it is not earliest, latest, available, not a time"),
        ("{", "Cannot read"),
        ('{"TOPIC": {"0": 999}}', "999 is not between"),
        ('{"TOPIC": {"7": 1}}', "does not exist"),
        ('{"TOPIC": 3}', "malformed"),
    ],
)
def test_wrong_targets_are_named(site: Any, behind: Any, text: str | None, said: str) -> None:
    file = site.home / "offsets.json"
    if text is not None:
        file.write_text(text.replace("TOPIC", site.topic))
    answer = operate(site, "reset", "flights", "--to", str(file), "--dry-run")
    assert answer.code == 2
    assert said in answer.err


def test_streams_without_a_position_are_not_reset_or_skipped(site: Any) -> None:
    produce(site, 4)
    answer = operate(site, "reset", "delay_alerts", "--to", "latest", "--dry-run")
    assert answer.code == 4
    assert "keeps no position" in answer.err
    windows = operate(site, "reset", "departures_hourly", "--to", "latest", "--dry-run")
    assert windows.code == 4
    assert "state is stored in the checkpoint" in windows.err
    assert "4 records; expired records are missing" in windows.err
    assert operate(site, "skip-batch", "flights", "--batch", "3", "--dry-run").code == 4


@pytest.fixture
def poisoned(site: Any, behind: Any) -> tuple[Any, dict[int, int]]:
    """Batch 3 has failed: its checkpoint planned the last two records of partition 0."""
    table, ends = behind
    folder = Path(site.home) / "checkpoints" / "flights" / "1"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "commits" / "2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for number, end in ((2, end_of(position(table), site)), (3, ends)):
        offsets = json.dumps({site.topic: {str(part): at for part, at in end.items()}})
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')
    with site.registry() as connection:
        streams.block(connection, "flights", {"reason": "poison", "what": "cast", "why": "", "next": "", "batch": 3})
    return table, ends


def test_a_skip_shows_the_records_masked_and_only_of_the_batch_that_failed(site: Any, poisoned: Any) -> None:
    wrong = operate(site, "skip-batch", "flights", "--batch", "2", "--dry-run")
    assert wrong.code == 4
    assert "batch 3 failed" in wrong.err
    shown = operate(site, "skip-batch", "flights", "--batch", "3", "--dry-run")
    assert shown.code == 0, shown.err
    assert shown.json["skipped"] == 2
    assert "37 bytes" in shown.err
    assert "hunter2" not in shown.err
    assert operate(site, "skip-batch", "flights", "--batch", "3", "--comment", "junk").code == 4


def test_a_skipped_batch_is_counted_by_position_batches_and_audit(site: Any, poisoned: Any) -> None:
    table, ends = poisoned
    answer = operate(site, "skip-batch", "flights", "--batch", "3", "--yes", "--comment", "junk")
    assert answer.code == 0, answer.err
    after = position(table)
    assert (after.seq, after.totals.skipped, end_of(after, site)) == (4, 2, ends)
    found = operate(site, "audit", "flights").json
    assert (found["missing"], found["skipped"]) == (0, 2)
    with site.registry() as connection:
        recorded = batches.newest(connection, "flights")[0]
        change = changes.newest(connection, "stream", "flights")[0]
    assert (recorded.batch_id, recorded.skipped, recorded.landed) == (3, 2, 0)
    assert (change.change, change.detail["after"]["skipped"]) == ("skip-batch", 2)


@pytest.mark.parametrize("what", ["commits/3", "offsets/4", "metadata"])
def test_a_batch_that_is_done_or_of_another_query_is_not_skipped(site: Any, poisoned: Any, what: str) -> None:
    file = Path(site.home) / "checkpoints" / "flights" / "1" / what
    file.write_text('{"id":"other"}' if what == "metadata" else "v1\n{}\n{}")
    answer = operate(site, "skip-batch", "flights", "--batch", "3", "--dry-run")
    assert answer.code == 4
    assert "Cannot skip batch" in answer.err


def test_a_hold_has_an_end_and_a_start_lifts_it(site: Any) -> None:
    held = operate(site, "hold", "flights", "--for", "2h", "--comment", "broker moves")
    assert held.code == 0
    with site.registry() as connection:
        until = streams.get(connection, "flights").hold_until
    assert until is not None
    assert until > datetime.now(UTC) + timedelta(hours=1)
    assert operate(site, "unhold", "flights").code == 0
    assert operate(site, "unhold", "flights").code == 4
    assert operate(site, "hold", "flights", "--until", "2020-01-01T00:00:00Z").code == 2
    assert operate(site, "hold", "flights").code == 2
    assert operate(site, "hold", "fligths", "--for", "2h").code == 2


def test_operations_in_the_wrong_state_say_what_is_right(site: Any) -> None:
    upgrade = operate(site, "upgrade", "flights")
    assert upgrade.code == 4
    assert "lakeward deploy" in upgrade.err
    assert operate(site, "rollback", "flights").code == 4
    assert operate(site, "recover", "flights").code == 4
    for operation in ("upgrade", "rollback", "recover"):
        assert operate(site, operation, "fligths").code == 2


@pytest.fixture
def native(site: Any) -> tuple[Any, Path]:
    """A table that somebody's `toTable` query landed up to batch 3, and its checkpoint."""
    ends = produce(site, 20)
    catalog = load_catalog("lake", **pyiceberg_properties(site.runtime.lake, site.runtime.pgpass))
    catalog.create_namespace_if_not_exists("nyc")
    rows = [(part, offset) for part, end in ends.items() for offset in range(end)]
    data = pa.table(
        {
            "_kafka_topic": pa.array([site.topic] * len(rows), pa.string()),
            "_kafka_partition": pa.array([part for part, _ in rows], pa.int32()),
            "_kafka_offset": pa.array([offset for _, offset in rows], pa.int64()),
        }
    )
    table = catalog.create_table("nyc.flights", data.schema)
    spark = {"spark.sql.streaming.queryId": "old", "spark.sql.streaming.epochId": "3"}
    table.append(data, snapshot_properties=spark)
    folder = site.home / "old"
    for name, text in (
        ("metadata", '{"id":"old"}'),
        ("sources/0/0", f"v1\n{json.dumps({site.topic: dict.fromkeys(map(str, ends), 0)})}"),
        ("offsets/3", f"v1\n{{}}\n{json.dumps({site.topic: {str(part): at for part, at in ends.items()}})}"),
        ("commits/3", "v1\n{}"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return table, folder


def test_an_import_proves_that_every_record_is_there_once_and_can_be_undone(site: Any, native: Any) -> None:
    table, folder = native
    arguments = ("import", "flights", "--checkpoint", str(folder))
    shown = operate(site, *arguments, "--dry-run")
    assert shown.code == 0, shown.err
    assert shown.json["equality"] == "proved: all 20 records since the query began are in the table, each once"
    assert key("flights") not in table.refresh().properties
    done = operate(site, *arguments, "--comment", "ours now")
    assert done.code == 0, done.err
    assert (position(table).seq, position(table).batch, position(table).totals.landed) == (1, -1, 20)
    assert table.properties["write.wap.enabled"] == "true"
    assert operate(site, "audit", "flights").json["missing"] == 0
    assert operate(site, *arguments).code == 4
    assert operate(site, "import", "flights", "--undo").code == 0
    assert {key("flights"), "write.wap.enabled"}.isdisjoint(table.refresh().properties)
    assert operate(site, "import", "flights", "--undo").code == 4


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("offsets/4", "v1\n{}\n{}", "a later batch was begun"),
        ("commits/3", None, "does not call it finished"),
        ("metadata", '{"id":"other"}', "no snapshot of nyc.flights is of query other"),
        ("metadata", None, "holds no query id"),
        ("offsets/3", 'v1\n{}\n{"TOPIC":{"0":99,"1":99}}', "are missing"),
    ],
)
def test_a_doubtful_import_is_refused(site: Any, native: Any, file: str, text: str | None, said: str) -> None:
    table, folder = native
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text.replace("TOPIC", site.topic))
    answer = operate(site, "import", "flights", "--checkpoint", str(folder))
    assert answer.code == 4
    assert said in answer.err
    assert key("flights") not in table.refresh().properties


def test_a_catalog_that_is_away_is_said_and_the_stream_is_free_again(site: Any, behind: Any) -> None:
    away = site.runtime.model_copy(update={"lake": site.runtime.lake.model_copy(update={"port": 1})})
    (site.home / "runtime.json").write_text(away.model_dump_json())
    answer = operate(site, "reset", "flights", "--to", "latest", "--yes", "--comment", "x")
    assert answer.code == 3
    assert "The catalog does not answer" in answer.err
    (site.home / "runtime.json").write_text(site.runtime.model_dump_json())
    assert operate(site, "reset", "flights", "--to", "latest", "--yes", "--comment", "x").code == 0


def test_of_many_by_tag_each_has_a_line_and_the_exit_code_is_the_worst(site: Any) -> None:
    with site.registry() as connection:
        operations.begin(connection, "flights", "upgrade", author="bob", holder="bob's shell", token="t")
    answer = operate(site, "stop", "--tag", "nyc", "--max-parallel", "2")
    assert answer.code == 4
    assert [(each["stream"], each["result"]) for each in answer.json["operations"]] == [
        ("delay_alerts", "skipped"),
        ("departures_hourly", "skipped"),
        ("flights", "refused"),
    ]
    assert "the upgrade requested by bob" in answer.json["operations"][2]["detail"]


@pytest.mark.parametrize("command", ["reset", "skip-batch", "import"])
def test_what_an_operation_says_besides_is_written_down(
    site: Any, command: str, request: pytest.FixtureRequest
) -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "stream-json.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith(f"| `streams {command}`"))
    if command == "import":
        _, folder = request.getfixturevalue("native")
        arguments = ["--checkpoint", str(folder)]
    else:
        request.getfixturevalue("poisoned")
        arguments = ["--to", "latest"] if command == "reset" else ["--batch", "3"]
    shown = operate(site, command, "flights", *arguments, "--dry-run").json
    common = {"operation", "stream", "result", "detail"}
    assert common <= shown.keys()
    assert set(re.findall(r"`(\w+)`", line)) == set(shown) - common
