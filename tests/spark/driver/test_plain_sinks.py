"""Sinks that are no tables: files exactly once, and the driver's log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog

from lakeward.connectors.folder import store
from lakeward.platform.errors import Blocked, Fenced, SpecError
from lakeward.telemetry import failpoints

pytestmark = pytest.mark.timeout(1200)  # a bound for a hang; a busy machine may need minutes


def into(lab: Any, topic: str, **more: Any) -> dict[str, Any]:
    folder = {"path": str(lab.folder / "an out"), "format": "parquet", **more}
    return lab.spec(topic, sink={"files": folder}, lineage="rows")


def read(lab: Any, document: dict[str, Any]) -> list[Any]:
    """As any reader of files sees the folder."""
    sink = document["sink"]["files"]
    return sorted(row["n"] for row in lab.spark.read.format(sink["format"]).load(sink["path"]).collect())


@pytest.mark.parametrize(
    "steps",
    [
        ("before-return",),
        pytest.param(
            ("after-stage", "after-quarantine", "after-publish", "before-return"),
            marks=pytest.mark.campaign(held_by="test_files_land_once_whenever_the_driver_dies"),
        ),
    ],
    ids=["a step", "each step"],
)
def test_files_land_once_whenever_the_driver_dies(lab: Any, steps: tuple[str, ...]) -> None:
    topic = lab.topic()
    document = into(lab, topic, partition_by=["s"])
    lab.produce(topic, [{"n": 1, "s": "a"}, "junk", {"n": 2, "s": "b"}, {"n": 3}])

    def die() -> None:
        raise RuntimeError("killed")

    for step in steps:
        with failpoints.on(step, die):
            lab.fail(document)
        lab.started.clear()
    running = lab.start(document)
    lab.until("the batch again", lambda: lab.done)
    assert lab.done[-1].outcome.already
    assert (read(lab, document), len(lab.rows("q"))) == ([1, 2, 3], 1)
    lab.land(topic, "junk")
    lab.land(topic, {"n": 4, "s": "a"})
    assert running.stop(60)
    assert read(lab, document) == [1, 2, 3, 4]

    path = Path(document["sink"]["files"]["path"])
    at = store.newest(path, document["id"])
    assert at is not None
    assert (at.seq, at.totals.consumed, at.totals.landed, at.totals.quarantined) == (3, 6, 4, 2)
    assert list((path / store.STAGING).iterdir()) == []
    assert (store.folder_of(path, 3) / "s=a").is_dir()

    shutil.rmtree(store.folder_of(path, 3))
    with pytest.raises(Blocked, match="is ahead of its table"):
        lab.start(document)


def test_a_second_driver_that_lands_first_fences_this_one(lab: Any) -> None:
    """Between the look at the folder, by which the checkpoint was judged, and the first batch."""
    topic = lab.topic()
    document = into(lab, topic, format="json")
    lab.produce(topic, [{"n": 1}])
    path = Path(document["sink"]["files"]["path"])

    def other() -> None:
        staged = path / store.STAGING / "another"
        staged.mkdir()
        mine = store.Position(seq=1, query_id="other", batch=0, end={"source": "-"}, attempt="other")
        store.publish(staged, path, document["id"], mine)

    with failpoints.on("batch-start", other):
        assert isinstance(lab.fail(document), Fenced)
    assert [each.name for each in store.folder_of(path, 1).iterdir()] == [store.MANIFEST]


def test_columns_that_files_have_no_place_for_are_refused_before_anything_runs(lab: Any) -> None:
    document = into(lab, lab.topic(), format="csv", partition_by=["nope"])
    document["transform"] = {"sql": "SELECT *, 1 AS seq, array(n) AS list FROM source"}
    with pytest.raises(SpecError) as refused:
        lab.start(document)
    for words in ("no column nope to partition by", "a column seq", "CSV has no place for list, which is ARRAY"):
        assert words in refused.value.why
    assert not Path(document["sink"]["files"]["path"]).exists()


def test_the_console_shows_a_few_rows_and_says_how_many_it_does_not(lab: Any) -> None:
    topic = lab.topic()
    lab.produce(topic, [{"n": each, "s": "x" * 2000 if each == 0 else None} for each in range(5)])
    document = lab.spec(topic, sink={"console": {"rows": 2}}, transform={"sql": "SELECT n, s FROM source"})
    with structlog.testing.capture_logs() as said:
        lab.run(document | {"lineage": "none"}, 5)
    shown = [each["row"] for each in said if each["event"] == "row"]
    assert len(shown) == 2
    assert all(len(each) < 1100 for each in shown)
    assert [each["rows"] for each in said if each["event"] == "rows not shown"] == [3]


def test_a_function_is_called_again_with_the_same_batch_and_can_tell(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooks_of_a_test.py").write_text(
        "calls = []\n"
        "def send(df, batch):\n"
        "    calls.append((batch.key, batch.id, batch.end, sorted(row.n for row in df.collect())))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    topic = lab.topic()
    lab.produce(topic, [{"n": 1}, {"n": 2}])
    document = lab.spec(topic, sink={"python": "hooks_of_a_test:send"}, lineage="rows")

    def die() -> None:
        raise RuntimeError("killed after the function returned")

    with failpoints.on("before-return", die):
        lab.fail(document)
    lab.started.clear()
    lab.start(document)
    lab.until("the batch again", lambda: lab.done)
    lab.land(topic, "junk")

    import hooks_of_a_test  # type: ignore[import-not-found]  # written above

    first, again = hooks_of_a_test.calls
    assert first == again, "a batch without rows is no call"
    key, number, end, rows = first
    assert (number, json.loads(end["source"]), rows) == (0, {topic: {"0": 2}}, [1, 2])
    assert key.split("/")[::2] == [document["id"], "0"]
    assert (lab.done[0].outcome.landed, lab.done[-1].quarantined) == (2, 1)
