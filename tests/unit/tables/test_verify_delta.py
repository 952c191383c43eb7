from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from delta_log import START_MS, add, commit, remove, table

from lakeward.connectors.delta import state
from lakeward.connectors.delta.state import State
from lakeward.tables.facts import Thresholds
from lakeward.tables.observe.delta import partition_of, table_facts
from lakeward.tables.plan.model import Action
from lakeward.tables.verify import Moved
from lakeward.tables.verify_delta import folder_state, moved_by, verify_vacuum


def look(folder: Path) -> State:
    read = state.read(folder)
    assert read is not None
    return read


def test_a_rewrite_is_counted_by_partition_and_a_write_beside_it_is_not(tmp_path: Path) -> None:
    commit(tmp_path, 0, table(), add("a", 1, 10, day="x"), add("b", 1, 10, day="x"), add("c", 1, 10, day="y"))
    before = look(tmp_path)
    commit(tmp_path, 1, add("d", 1, 10, day="x"))
    commit(tmp_path, 2, *(remove(each, rewrite=True) for each in "ab"), add("ab", 2, 19, rewrite=True, day="x"))
    [(version, moved)] = moved_by(before, look(tmp_path)).items()
    assert (version, {str(each): did for each, did in moved.items()}) == (
        2,
        {"day=x": Moved(rows_in=19, rows_out=20, files_in=1, files_out=2)},
    )


SPELLINGS = {
    "timestamp": ("1965-03-01T23:30:00.000000Z", "1965-03-01 23:30:00", "1965-03-01 23:30:00.000000"),
    "timestamp_ntz": ("1965-03-01 23:30:00", "1965-03-01 23:30:00.000000", "1965-03-01T23:30:00"),
    "date": ("1965-03-01", "1965-03-01 00:00:00"),
    "decimal(10,2)": ("1.50", "1.5", "1.500", "+1.5"),
    "double": ("100000.0", "1e5", "1.0E5", "100000"),
    "float": ("0.1", "0.10000000149011612"),
    "boolean": ("true", "TRUE"),
    "long": ("7", "007"),
}


@pytest.mark.parametrize(("kind", "texts"), SPELLINGS.items())
def test_spellings_of_one_value_are_one_partition(tmp_path: Path, kind: str, texts: tuple[str, ...]) -> None:
    files = [add(f"f{n}", 1, 10, p=text) for n, text in enumerate(texts)]
    commit(tmp_path, 0, table("p", kind), *files)
    before = look(tmp_path)
    removed = [remove(f"f{n}", rewrite=True) for n in range(len(texts))]
    commit(tmp_path, 1, *removed, add("all", 1, 10 * len(texts), rewrite=True, p=texts[-1]))
    after = look(tmp_path)
    [did] = moved_by(before, after)[1].values()
    assert (did.rows_in, did.rows_out, did.files_out) == (10 * len(texts),) * 2 + (len(texts),)
    seen = table_facts("t.t", before, lambda size, properties: Thresholds(100, 90, 50))
    assert [part.files for part in seen.profile.partitions] == [len(texts)], "the engine rewrites them together"
    of_each = {partition_of(before, {"p": text}).name for text in texts}
    assert len(of_each) == 1, "one name, whoever wrote"


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("string", "", None),
        ("string", "null", None),
        ("string", "1.0", "1"),
        ("timestamp", "1965-03-01T23:30:00Z", "1965-03-01T23:30:00+01:00"),
        ("timestamp", "1965-03-01 23:30:00", "1965-03-01 23:30:00.000001"),
        ("decimal(10,2)", "1.50", "1.51"),
        ("boolean", "true", "false"),
        ("double", "0.1", "0.10000000000000002"),
        ("long", "9007199254740993", "9007199254740992"),
    ],
)
def test_a_rewrite_that_changes_a_partition_value_is_found(
    tmp_path: Path, kind: str, one: str, other: str | None
) -> None:
    commit(tmp_path, 0, table("p", kind), add("a", 1, 10, p=one), add("b", 1, 10, p=one))
    before = look(tmp_path)
    commit(tmp_path, 1, *(remove(each, rewrite=True) for each in "ab"), add("ab", 1, 20, rewrite=True, p=other))
    moved = moved_by(before, look(tmp_path))[1]
    assert sorted((did.rows_in, did.rows_out) for did in moved.values()) == [(0, 20), (20, 0)]


def test_an_empty_text_of_another_type_is_null_in_every_engine(tmp_path: Path) -> None:
    commit(tmp_path, 0, table("p", "date"), add("a", 1, 10, p=""), add("b", 1, 10, p=None))
    before = look(tmp_path)
    commit(tmp_path, 1, *(remove(each, rewrite=True) for each in "ab"), add("ab", 1, 20, rewrite=True, p=None))
    [did] = moved_by(before, look(tmp_path))[1].values()
    assert (did.rows_in, did.rows_out) == (20, 20)


def test_rows_of_a_deletion_vector_are_left_out_of_the_count(tmp_path: Path) -> None:
    vector = {"storageType": "u", "cardinality": 3}
    commit(tmp_path, 0, table(""), add("a", 1, 10), add("b", 1, 10))
    with_vector = add("a", 1, 10)
    with_vector["add"]["deletionVector"] = vector
    commit(tmp_path, 1, with_vector, remove("a"))
    before = look(tmp_path)
    assert before.files["a"].deleted == 3, "the file is live, though its removal is written after it"
    commit(tmp_path, 2, *(remove(each, rewrite=True) for each in "ab"), add("ab", 1, 17, rewrite=True))
    [did] = moved_by(before, look(tmp_path))[2].values()
    assert (did.rows_in, did.rows_out) == (17, 17)


@pytest.fixture
def cleaned(tmp_path: Path) -> Path:
    """Four files, of which two were taken out, one long ago."""
    commit(tmp_path, 0, table(""), *(add(each, 1) for each in "abcd"))
    commit(tmp_path, 1, remove("a", at=1))
    commit(tmp_path, 2, remove("b", at=100))
    for each in "abcd":
        (tmp_path / each).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("deleted", "ok", "harmed", "why"),
    [
        ("a", True, False, "1 file went, 2 files stand"),
        ("", False, False, "0 files went, 1 were promised"),
        ("ab", False, True, "b went though it was taken out later than allowed"),
        ("ac", False, True, "missing in the folder: 1 file of the table, e.g. c"),
    ],
)
def test_a_vacuum_takes_what_was_promised_and_nothing_else(
    cleaned: Path, deleted: str, ok: bool, harmed: bool, why: str
) -> None:
    before = look(cleaned)
    held = folder_state(before)
    for each in deleted:
        (cleaned / each).unlink()
    cutoff = datetime.fromtimestamp(START_MS / 1000 + 60 * 50, UTC)
    verdict = verify_vacuum(Action("expire", "", older_than=cutoff), before, held, look(cleaned))
    assert (verdict.ok, verdict.harmed, verdict.why) == (ok, harmed, why)


def test_partition_columns_that_are_renamed_meanwhile_are_the_same_partitions(tmp_path: Path) -> None:
    def mapped(**names: str) -> dict[str, Any]:
        """Logical name -> physical name."""
        fields = [
            {"name": each, "type": "string", "nullable": True,
             "metadata": {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": at}}
            for at, (each, physical) in enumerate(names.items())
        ]  # fmt: skip
        schema = json.dumps({"type": "struct", "fields": fields})
        mode = {"delta.columnMapping.mode": "name"}
        return {"metaData": {"id": "u", "schemaString": schema, "partitionColumns": [*names], "configuration": mode}}

    values = {"col-1": "x", "col-2": "y"}
    commit(tmp_path, 0, mapped(day="col-1", night="col-2"), *(add(each, 1, 10, **values) for each in "ab"))
    before = look(tmp_path)
    commit(tmp_path, 1, mapped(night="col-1", day="col-2"))
    commit(tmp_path, 2, *(remove(each, rewrite=True) for each in "ab"), add("ab", 2, 20, rewrite=True, **values))
    [moved] = moved_by(before, look(tmp_path)).values()
    assert {str(each): did for each, did in moved.items()} == {
        "night=x/day=y": Moved(rows_in=20, rows_out=20, files_in=1, files_out=2)
    }
