"""Streams from Kinesis (moto's) land each record once: over kills, splits, state, and never from another stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import kinesis_rig
import pytest
from kinesis_rig import CONNECTION, REGION, Rig

from lakeward.connectors.kinesis import sample, shard_offsets
from lakeward.connectors.kinesis.stream import Stream
from lakeward.operations import preview
from lakeward.platform.errors import Blocked, DependencyDown, SpecError
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.sql.statements import quote_text
from lakeward.supervision import probes
from lakeward.supervision.decide.dependencies import Dependency, Kind, needs
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


@pytest.fixture(scope="module")
def kinesis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with kinesis_rig.running(tmp_path_factory.mktemp("kinesis")) as made:
        yield made


@pytest.fixture
def shore(lab: Any, kinesis: Rig) -> Any:
    """A lab that knows the connection."""
    lab.runtime = lab.runtime.model_copy(update={"connections": kinesis.secrets})
    return lab


def source(name: str, **more: Any) -> dict[str, Any]:
    given = {"stream": name, "region": REGION, "connection": CONNECTION, "max_records_per_trigger": 15}
    return {"kinesis": given | more}


def test_records_land_once_over_kills_and_a_split_and_bad_ones_are_kept(shore: Any, kinesis: Rig) -> None:
    name = kinesis.create(2)
    kinesis.put(name, [{"n": n} for n in range(40)])
    kinesis.put(name, ["junk"])
    document = shore.spec("none", source=source(name, max_records_per_trigger=25))

    def die() -> None:
        raise RuntimeError("died")

    for step in ("after-stage", "after-publish", "after-quarantine"):  # the first two in the first batch
        with failpoints.on(step, die):
            assert "died" in str(shore.fail(document))
        shore.started.clear()
    kinesis.split(name, "shardId-000000000000")
    kinesis.put(name, [{"n": n} for n in range(40, 80)])
    running = shore.start(document)
    shore.until_rows(80)
    assert running.stop(60)
    assert sorted(row["n"] for row in shore.rows()) == list(range(80))
    assert {row["_kinesis_stream"] for row in shore.rows()} == {name}
    assert len({(row["_kinesis_shard"], row["_kinesis_sequence"]) for row in shore.rows()}) == 80
    [bad] = shore.rows("q")
    assert (bytes(bad["raw"]), bad["_kinesis_shard"]) == (b"junk", "shardId-000000000000")
    assert max(done.consumed for done in shore.done) <= 25, "a batch is bounded"
    position = _position(shore, document)
    assert position["totals"] == {"consumed": 81, "landed": 80, "quarantined": 1, "filtered": 0, "skipped": 0}
    end = shard_offsets.parse(position["end"]["source"])
    assert end["shardId-000000000000"] == "END" and set(end) >= {f"shardId-00000000000{n}" for n in (1, 2, 3)}

    # Its checkpoint is gone, and recover left the position to go on from.
    kinesis.put(name, [{"n": 80}])
    _set(shore, document, {**position, "query_id": "", "batch": -1, "seq": position["seq"] + 1})
    wanted = replace(shore.wanted(document), checkpoint=f"{shore.folder}/checkpoints/{document['id']}/2")
    running = shore.starter().start(wanted)
    shore.started.append(running)
    shore.until_rows(81)
    assert running.stop(60)
    assert sorted(row["n"] for row in shore.rows()) == list(range(81))

    client = kinesis.client()
    client.delete_stream(StreamName=name)
    client.create_stream(StreamName=name, ShardCount=4)
    with pytest.raises(Blocked, match=f"{name} of stream {document['id']} was deleted and created again") as replaced:
        shore.starter().start(wanted)
    assert replaced.value.reason == "topic-replaced"


@pytest.mark.campaign(held_by="test_records_land_once_over_kills_and_a_split_and_bad_ones_are_kept")
def test_counts_by_key_are_those_of_all_records(shore: Any, kinesis: Rig) -> None:
    name = kinesis.create(2)
    kinesis.put(name, [{"n": n, "s": f"k{n % 3}"} for n in range(18)] + ["junk"])
    document = shore.spec(
        "none",
        source=source(name),
        transform={"sql": "SELECT s, count(*) AS many FROM source GROUP BY s"},
        sink={"iceberg": {"table": f"{shore.namespace}.t", "mode": "upsert", "keys": ["s"]}},
        spark={"spark.sql.shuffle.partitions": 1},
    )
    running = shore.start(document)
    shore.until("19 records", lambda: sum(done.consumed for done in shore.done) >= 19)
    assert running.stop(60)
    assert {row["s"]: row["many"] for row in shore.rows()} == {"k0": 6, "k1": 6, "k2": 6}
    assert len(shore.rows("q")) == 1, "the records of a batch are read again to keep the bad one"


@pytest.mark.campaign
def test_late_records_of_each_shard_are_kept(shore: Any, kinesis: Rig) -> None:
    """As those of Kafka (`test_late.py`): the batch is read again by its shards and sequence numbers."""
    name = kinesis.create(2)

    def put(*times: str) -> None:
        before = sum(done.consumed for done in shore.done)
        kinesis.put(name, [{"n": n, "at": f"2026-03-01T{time}Z"} for n, time in enumerate(times)])
        shore.until("the records", lambda: sum(done.consumed for done in shore.done) >= before + len(times))

    shore.start(shore.spec(
        "none", source=source(name), decode={"json": "n INT, at TIMESTAMP"},
        watermark={"column": "at", "delay": "10m"}, late={"table": f"{shore.namespace}.late"},
        transform={"sql": "SELECT window(at, '5 minutes') AS w, n, count(*) AS many FROM source GROUP BY 1, n"},
        spark={"spark.sql.shuffle.partitions": 1},
    ))  # fmt: skip
    put("10:05:00")
    shore.until("the batch without records", lambda: any(not done.consumed for done in shore.done))
    put(*(f"09:{minute:02}:00" for minute in range(60)))
    late = shore.rows("late", "get_json_object(row, '$.n') AS n, CAST(raw AS STRING) AS raw, _kinesis_shard AS shard")
    assert sorted(int(row["n"]) for row in late) == list(range(55)), "each record in a window that ends by 09:55"
    assert all(json.loads(row["raw"])["n"] == int(row["n"]) for row in late)
    assert len({row["shard"] for row in late}) == 2
    last = {done.batch_id for done in shore.done}
    shore.until("Spark's reports", lambda: last <= {each["batchId"] for each in shore.progress})
    assert sum(op["numRowsDroppedByWatermark"] for each in shore.progress for op in each["stateOperators"]) == 55


def test_what_is_wrong_with_kinesis_is_named_before_a_query_starts(shore: Any, kinesis: Rig) -> None:
    with pytest.raises(SpecError, match="Kinesis stream nowhere does not exist"):
        shore.start(shore.spec("none", source=source("nowhere")))
    with pytest.raises(SpecError, match="AWS connection 'nobody' does not exist"):
        shore.start(shore.spec("none", source=source("nowhere", connection="nobody")))
    file = kinesis.secrets / "aws" / "away.ini"
    file.write_text((file.with_name(f"{CONNECTION}.ini")).read_text().replace(kinesis.endpoint, "http://127.0.0.1:9"))
    file.chmod(0o600)
    with pytest.raises(DependencyDown, match="Kinesis does not answer") as away:
        shore.start(shore.spec("none", source=source("nowhere", connection="away")))
    assert "EndpointConnectionError" in away.value.why
    assert "k1nesis-s3cret" not in str(away.value)

    there, gone = (Dependency(Kind.KINESIS, f"{REGION}, {each}") for each in (CONNECTION, "away"))
    assert there in needs(shore.spec("none", sources={"source": source("nowhere")}), shore.runtime)
    answers = probes.ask(shore.runtime, [there, gone], patience_s=60)
    assert answers[there] is None
    assert "Could not connect" in str(answers[gone])


@pytest.mark.campaign(
    held_by="tests/spark/cli/test_preview.py::"
    "test_a_sample_shows_what_would_land_and_what_would_not_and_touches_nothing"
)
def test_the_newest_records_are_previewed_and_nothing_is_written_down(shore: Any, kinesis: Rig) -> None:
    name = kinesis.create(2)
    kinesis.put(name, [{"n": n, "s": "a"} for n in range(6)])
    kinesis.put(name, ["junk"])
    spec = StreamSpec.model_validate(shore.spec("none", source=source(name)))
    found = preview.of(shore.spark.newSession(), spec, shore.runtime, preview.newest_samples(spec, shore.runtime, 3), 3)
    assert (found.read, sorted(row["n"] for row in found.rows)) == (3, [4, 5])
    [aside] = found.quarantined
    assert "not one JSON object" in aside["error"]
    assert sample.newest(Stream(kinesis.place(kinesis.create())), 3, 0.0) == []


def _position(shore: Any, document: dict[str, Any]) -> dict[str, Any]:
    rows = shore.spark.sql(f"SHOW TBLPROPERTIES lake.{shore.namespace}.t").collect()
    return dict(json.loads({row["key"]: row["value"] for row in rows}[f"lakeward.stream.{document['id']}.position"]))


def _set(shore: Any, document: dict[str, Any], position: dict[str, Any]) -> None:
    pair = quote_text(f"lakeward.stream.{document['id']}.position"), quote_text(json.dumps(position))
    shore.spark.sql(f"ALTER TABLE lake.{shore.namespace}.t SET TBLPROPERTIES ({pair[0]} = {pair[1]})")
