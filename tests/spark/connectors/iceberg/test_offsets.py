"""Where a running batch starts and ends, for one and for several sources."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.commit_protocol import offsets
from lakeward.platform.errors import LakewardError


@pytest.mark.parametrize(
    ("given", "wanted"), [('{"b": {"1": 2, "0": 1}}', '{"b":{"0":1,"1":2}}'), ("17", "17"), ("not json", "not json")]
)
def test_the_canonical_form_does_not_depend_on_how_spark_writes_json(given: str, wanted: str) -> None:
    assert offsets.canonical_json(given) == wanted


def test_each_batch_starts_where_the_last_one_ended(rig: Any) -> None:
    rig.per_batch = 4
    rig.produce(10)
    landed = rig.run()
    rig.produce(2)
    landed += rig.run()

    assert landed[0].start == {"source": rig.offsets(0, 0)}
    assert all(after.start == before.end for before, after in pairwise(landed))


def test_a_replayed_batch_reads_the_same_start_and_end(rig: Any) -> None:
    rig.per_batch = 4
    rig.produce(10)
    landed = rig.run()
    rig.forget_commit()

    (again,) = rig.run()

    assert (again.start, again.end) == (landed[-1].start, landed[-1].end)


def test_several_sources_are_distinguished_by_their_marks(rig: Any, tmp_path: Path) -> None:
    """A join or union reads its sources in the plan's order, not in the order they are declared."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.txt").write_text("100\n101\n")
    files = rig.spark.readStream.text(str(folder)).selectExpr(
        "'f' _kafka_topic", "0 _kafka_partition", "0L _kafka_offset", "value", "'file' kind"
    )
    rig.produce(2)
    make = rig.sink

    def named(query: str) -> Any:
        sink = make(query)
        sink.sources = ("records", "files")
        return sink

    rig.sink = named
    both = offsets.mark(files, "files").unionByName(offsets.mark(rig.read(), "records"))

    first = rig.run(rows=both)[0]
    (folder / "2.txt").write_text("102\n")
    second = rig.run(rows=both)

    assert first.start == {"records": rig.offsets(0, 0), "files": "-"}
    assert first.end == {"records": rig.offsets(1, 1), "files": '{"logOffset":0}'}
    assert second[-1].end == {"records": rig.offsets(1, 1), "files": '{"logOffset":1}'}
    assert rig.values() == [0, 1, 100, 101, 102]


def test_sources_that_cannot_be_known_apart_are_refused(rig: Any) -> None:
    make = rig.sink

    def named(query: str) -> Any:
        sink = make(query)
        sink.sources = ("one", "two")
        return sink

    rig.sink = named
    rig.produce(1)

    with pytest.raises(LakewardError, match="cannot be distinguished"):
        rig.run(rows=rig.read().unionByName(rig.read()))


def test_a_query_that_does_not_run_is_named(rig: Any) -> None:
    with pytest.raises(LakewardError, match="nobody"):
        offsets.execution_of(rig.spark, "nobody")
