"""Rows of the quarantine that land after all: each once, whatever dies, whoever else is at it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import replay_rig
from moved_rig import Registry, deployed
from replay_rig import Died, at, die

from lakeward.cli.streams.audit import audit
from lakeward.connectors.commit_protocol.replay import key
from lakeward.engine.assignment import Assignment
from lakeward.operations.replay.operation import Replay
from lakeward.operations.replay.replay import Report, replay
from lakeward.operations.request import Request
from lakeward.operations.runner import Runner
from lakeward.platform.errors import Refused
from lakeward.registry import changes
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes

_RECORDS = [
    {"n": 1, "s": "good"}, {"n": "1", "s": "wrong type"}, "junk", {"n": 2, "s": "x" * 80}, {"n": 950, "s": "by rule"},
    {"n": 5000, "s": "by rule, still"}, {"n": "7", "s": "drop"}, {"n": 8, "s": "good"},
]  # fmt: skip
_FIXED = {
    "decode": {"json": "n STRING, s STRING", "max_bytes": "1KB"},
    "transform": {"sql": "SELECT try_cast(n AS INT) AS n, * EXCEPT (n) FROM source WHERE s <> 'drop'"},
    "rules": {"small": "n < 1000"},
}


def _stream(lab: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The stream as it landed two of eight records, and as it is put right."""
    topic = lab.topic()
    lab.produce(topic, _RECORDS)
    before = lab.spec(
        topic, decode={"json": "n INT, s STRING", "max_bytes": "64B"}, rules={"small": "n < 900"}, lineage="rows"
    )
    lab.run(before, len(_RECORDS))
    assert {row["_kafka_offset"]: row["reason"] for row in lab.rows("q")} == {
        1: "decode", 2: "decode", 3: "too_large", 4: "small", 5: "small", 6: "decode",
    }  # fmt: skip
    return topic, before, {**before, **_FIXED}


def _replay(lab: Any, document: dict[str, Any], **more: Any) -> Report:
    return replay(lab.spark, Assignment(document["id"], 2, document, ""), lab.runtime, **more)


def _audit(lab: Any, document: dict[str, Any]) -> tuple[int, ...]:
    found = audit(lab.runtime, StreamSpec.model_validate(document))
    return tuple(found[name] for name in ("landed", "quarantined", "filtered", "missing", "duplicates", "beyond"))


def _is_left_to_the_stream(lab: Any, before: dict[str, Any], fixed: dict[str, Any]) -> None:
    """What the stream reads again itself, because its position is before the record, no replay lands."""
    table = f"lake.{lab.namespace}.t"
    text = lab.spark.sql(f"SHOW TBLPROPERTIES {table}").where("key LIKE '%position'").first()
    back = text["value"].replace('{\\"0\\":8}', '{\\"0\\":4}').replace('{"0":8}', '{"0":4}')
    assert back != text["value"]

    def put(value: str) -> None:
        quoted = value.replace(chr(92), chr(92) * 2)
        lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{text['key']}' = '{quoted}')")

    put(back)
    said = _replay(lab, fixed, reason="small", dry_run=True)
    assert (said.found, said.landed) == (2, 0)
    assert [(each["count"], each["why"].split(":")[0]) for each in said.left] == [
        (2, "the stream's position is before its record")
    ]
    assert key(before["id"]) not in {row["key"] for row in lab.spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    put(text["value"])


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_quarantine_removal.py::"
    "test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
)
@pytest.mark.parametrize("steps", [(("replay-claimed", 1), ("before-publish", 2))], ids=["each step"])
def test_what_is_good_by_now_lands_once_wherever_the_replay_dies(lab: Any, steps: tuple[tuple[str, int], ...]) -> None:
    topic, before, fixed = _stream(lab)
    assert _audit(lab, fixed) == (2, 6, 0, 0, 0, 0)
    _is_left_to_the_stream(lab, before, fixed)

    said = _replay(lab, fixed, dry_run=True)
    assert (said.found, said.landed, said.filtered, said.present, said.seq, said.left) == (6, 3, 1, 0, None, [])
    assert said.failing == [
        {"reason": "decode", "count": 1, "errors": ["not one JSON object"]},
        {"reason": "small", "count": 1, "errors": ["not: n < 1000"]},
    ]
    assert _audit(lab, fixed) == (2, 6, 0, 0, 0, 0), "a dry run changes nothing"
    assert {each["replay"] for each in lab.rows("q")} == {None}

    for step, nth in steps:
        with failpoints.on(step, at(nth, die)), pytest.raises(Died):
            _replay(lab, fixed)
        assert _audit(lab, fixed) == (2, 6, 0, 0, 0, 0), f"nothing of it counts after {step}"
    with failpoints.on("after-publish", at(2, die)), pytest.raises(Died):
        _replay(lab, fixed)
    assert {each["replayed_at"] for each in lab.rows("q")} == {None}, "the quarantine does not say so yet"
    assert _audit(lab, fixed) == (5, 2, 1, 0, 0, 0), "and they count as landed all the same"

    again = _replay(lab, fixed)
    assert (again.found, again.landed, again.filtered, again.present) == (2, 0, 0, 0)
    assert _audit(lab, fixed) == (5, 2, 1, 0, 0, 0)
    landed = sorted((row["_kafka_offset"], row["n"], row["s"]) for row in lab.rows())
    assert landed == [
        (0, 1, "good"), (1, 1, "wrong type"), (3, 2, "x" * 80), (4, 950, "by rule"), (7, 8, "good"),
    ]  # fmt: skip
    kept = {row["_kafka_offset"]: row["became"] for row in lab.rows("q") if row["replayed_at"]}
    assert kept == {1: "landed", 3: "landed", 4: "landed", 6: "filtered"}
    # The stream itself was not fenced by any of it, and reads on.
    lab.produce(topic, [{"n": 9, "s": "later"}])
    lab.run(fixed, 1)
    assert _audit(lab, fixed) == (6, 2, 1, 0, 0, 0)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_quarantine_removal.py::"
    "test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
)
def test_two_replays_at_once_and_a_running_stream_beside_them(lab: Any) -> None:
    topic, _, fixed = _stream(lab)
    lab.start(fixed)

    def land_one_more() -> None:
        lab.land(topic, {"n": 10, "s": "meanwhile"})

    def second_dies_late() -> None:
        with failpoints.on("after-publish", at(2, die)), pytest.raises(Died):
            _replay(lab, fixed)

    # The first stops between its begin and its claim while another one lands everything, and dies before it says so.
    with failpoints.on("before-publish", at(3, land_one_more)), failpoints.on(
        "replay-begun", at(1, second_dies_late)
    ):  # fmt: skip
        first = _replay(lab, fixed)
    assert (first.found, first.landed, first.filtered) == (2, 0, 0)
    assert _audit(lab, fixed) == (6, 2, 1, 0, 0, 0)

    # Mended further: one stops after its claim while another one lands, and finds its token gone.
    mended = {**fixed, "rules": {}}
    with (
        failpoints.on("replay-claimed", at(1, lambda: _replay(lab, mended))),
        pytest.raises(Refused, match="another replay is running"),
    ):
        _replay(lab, mended)
    assert _audit(lab, mended) == (7, 1, 1, 0, 0, 0)
    assert [row["n"] for row in lab.rows() if row["n"] == 5000] == [5000]
    assert lab.started[-1].failure() is None, "the running stream was left alone"


def _lakeward(home: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lakeward", *words, "-o", "json", "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_upsert.py::test_the_newest_row_of_each_key_stays_within_a_batch_and_across_batches"
)
def test_an_older_row_does_not_replace_a_newer_one(lab: Any, registry: Registry, operator: Runner) -> None:
    topic = lab.topic()
    lab.produce(
        topic,
        [
            {"k": 1, "v": 3, "s": "bad: older"}, {"k": 2, "v": 1, "s": "bad: alone"}, {"k": 1, "v": 9, "s": "newest"},
            {"k": 1, "v": 9, "s": "bad: as new"}, {"k": 3, "v": 1, "s": "old"}, {"k": 3, "v": 5, "s": "bad: newer"},
        ],
    )  # fmt: skip
    before = lab.spec(
        topic,
        decode={"json": "k INT, v INT, s STRING"},
        sink={"iceberg": {"table": f"{lab.namespace}.t", "mode": "upsert", "keys": ["k"], "order_by": "v"}},
        rules={"fine": "s NOT LIKE 'bad%'"},
        lineage="none",
    )
    lab.run(before, 6)
    fixed = {**before, "rules": {}}

    with failpoints.on("replay-claimed", at(1, die)), pytest.raises(Died):
        _replay(lab, fixed)
    deployed(registry, fixed, lab.wanted(fixed).checkpoint)
    request = Request(Replay.name, f"{lab.namespace}.t", "the rule was wrong")
    (told,) = operator.run(Replay(operator, request, lambda streams: nullcontext(lab.spark))).data["streams"]
    assert (told["found"], told["landed"], list(told["failing"])) == (4, 4, [])
    with registry() as connection:
        (change,) = changes.newest(connection, "stream", str(fixed["id"]))
    assert (change.change, change.comment, change.detail["landed"]) == ("replay", "the rule was wrong", 4)
    assert {row["k"]: row["s"] for row in lab.rows()} == {1: "newest", 2: "bad: alone", 3: "bad: newer"}
    found = audit(lab.runtime, StreamSpec.model_validate(fixed))
    assert (found["consumed"], found["landed"], found["quarantined"]) == (6, 6, 0)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_quarantine_removal.py::"
    "test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
)
def test_the_command_replays_in_an_application_of_its_own(lab: Any, postgres: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": 1, "s": "good"}, {"n": 2, "s": "bad"}])
    before = lab.spec(topic, rules={"fine": "s <> 'bad'"}, lineage="rows")
    lab.run(before, 2)
    fixed = {**before, "rules": {}}
    home = replay_rig.deployed(lab, postgres, fixed)
    said = _lakeward(home, "quality", "replay", f"{lab.namespace}.t", "--comment", "the rule was wrong")
    (told,) = said["streams"]
    assert (said["comment"], told["found"], told["landed"], told["failing"]) == ("the rule was wrong", 1, 1, [])
    with connect((home / "secrets" / "registry.url").read_text(), postgres.pgpass) as connection:
        (change,) = changes.newest(connection, "stream", str(fixed["id"]))
    assert (change.change, change.comment, change.detail["landed"]) == ("replay", "the rule was wrong", 1)
    assert sorted(row["n"] for row in lab.rows()) == [1, 2]
