"""Cleaning of landed files: only those of committed batches, none that a table names, and again after a kill."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lakeward.connectors.file_access import FileAccess
from lakeward.connectors.files import cleaning, reader
from lakeward.connectors.files.cleaning import MARK, Cleaner
from lakeward.connectors.files.log import SourceLog
from lakeward.engine.checkpoint.files import LocalFiles
from lakeward.platform.errors import Blocked, Unhealthy
from lakeward.spec.model.sources import FilesSource

HERE = FileAccess()


@dataclass
class Tables:
    """Owners of files, as a test says."""

    named: dict[str, str] = field(default_factory=dict)
    unknown: bool = False
    looks: int = 0

    def below(self, folder: str) -> Mapping[str, str]:
        return {path: why for path, why in self.named.items() if path.startswith(folder)}

    def of(self, paths: Collection[str]) -> Mapping[str, str]:
        self.looks += 1
        if self.unknown:
            raise Unhealthy("It is not known", why="table n.t cannot be read", code="LW-3498")
        return {path: self.named[path] for path in paths if path in self.named}


@dataclass
class Rig:
    """A folder with files, the log of Spark's source, and the tables."""

    root: Path
    after: str = "delete"
    tables: Tables = field(default_factory=Tables)
    now: float = 0.0

    @property
    def log(self) -> Path:
        return self.root / "checkpoint" / "sources" / "0"

    @property
    def spec(self) -> FilesSource:
        return FilesSource.model_validate(
            {"path": str(self.root / "in"), "format": "text", "max_files_per_trigger": 1, "after": self.after}
        )

    def land(self, entry: int, *names: str) -> None:
        self.log.mkdir(parents=True, exist_ok=True)
        (self.root / "in").mkdir(exist_ok=True)
        lines = []
        for name in names:
            file = self.root / "in" / name
            file.write_text(name)
            lines.append(json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": entry}))
        (self.log / str(entry)).write_text("\n".join(["v1", *lines]))

    def cleaner(self) -> Cleaner:
        log = SourceLog(LocalFiles(), str(self.log))
        return Cleaner("source", self.spec, HERE, log, self.tables, clock=lambda: self.now)

    @property
    def left(self) -> set[str]:
        return {each.name for each in (self.root / "in").iterdir()}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path)
    for entry, name in enumerate(("a b%.txt", "b.txt", "c.txt")):
        rig.land(entry, name)
    return rig


def test_spark_itself_cleans_nothing(rig: Rig) -> None:
    options = reader.stream_options(rig.spec)
    assert options["cleanSource"] == "off" and "sourceArchiveDir" not in options


def test_files_of_committed_batches_go_once_and_those_of_the_running_batch_stay(rig: Rig) -> None:
    cleaner = rig.cleaner()
    cleaner.clean("s", 0)
    assert rig.left == {"b.txt", "c.txt"}
    cleaner.clean("s", 0)
    assert rig.tables.looks == 1
    rig.cleaner().clean("s", 1)  # another process
    assert rig.left == {"c.txt"}


def test_a_file_that_a_table_names_blocks_and_no_file_of_the_batch_goes(rig: Rig) -> None:
    rig.land(1, "b.txt", "d.txt")
    path = str(rig.root / "in" / "d.txt")
    rig.tables.named[path] = "table n.t names it"
    with pytest.raises(Blocked) as raised:
        rig.cleaner().clean("s", 1)
    assert raised.value.reason == "files-of-a-table"
    assert f"{path}: table n.t names it" in raised.value.why and "after: keep" in raised.value.next
    assert rig.left == {"a b%.txt", "b.txt", "c.txt", "d.txt"}
    with pytest.raises(Blocked):
        rig.cleaner().check("s")
    rig.tables.named.clear()
    rig.cleaner().check("s")
    rig.cleaner().clean("s", 1)
    assert rig.left == {"a b%.txt", "c.txt"}, "without a mark only the last batch: an earlier one may have been kept"


def test_files_whose_owners_are_not_known_wait_also_through_a_restart(rig: Rig) -> None:
    cleaner = rig.cleaner()
    cleaner.clean("s", 0)
    rig.tables.unknown = True
    rig.now += 1
    cleaner.clean("s", 1)
    assert rig.left == {"b.txt", "c.txt"}, "landing goes on, and nothing is deleted"
    rig.tables.unknown = False
    rig.cleaner().clean("s", 2)
    assert rig.left == set()


def test_files_that_landed_while_they_were_kept_are_never_cleaned(rig: Rig) -> None:
    rig.cleaner().clean("s", 0)
    cleaning.forget(HERE, str(rig.log))  # the stream ran with `keep`
    rig.cleaner().clean("s", 2)
    assert rig.left == {"b.txt"}
    assert (rig.log / MARK).read_text() == "2"


def test_a_slow_look_at_the_owners_is_not_repeated_at_every_batch(rig: Rig) -> None:
    def slow(paths: Collection[str]) -> Mapping[str, str]:
        rig.now += 1.0
        return {}

    rig.tables.of = slow  # type: ignore[method-assign]  # a look that takes a second
    cleaner = rig.cleaner()
    cleaner.clean("s", 0)
    rig.now += 5
    cleaner.clean("s", 1)
    assert rig.left == {"b.txt", "c.txt"}
    rig.now += 60
    cleaner.clean("s", 2)
    assert rig.left == set(), "what waited goes with the next look"


def test_the_archive_keeps_the_whole_path_and_is_not_overwritten(rig: Rig) -> None:
    rig.after = "archive"
    archive = Path(f"{rig.root}/in.archived{rig.root}/in")
    archive.mkdir(parents=True)
    (archive / "b.txt").write_text("another content")
    (archive / "c.txt").write_text("c.txt")  # a move that was interrupted between copy and delete
    cleaner = rig.cleaner()
    for entry in range(3):
        cleaner.clean("s", entry)
    assert {each.name: each.read_text() for each in archive.iterdir()} == {
        "a b%.txt": "a b%.txt", "b.txt": "another content", "c.txt": "c.txt",
    }  # fmt: skip
    assert rig.left == {"b.txt"}, "what cannot be moved stays, and cleaning goes on"
    assert (rig.log / MARK).read_text() == "2"


def test_a_file_keeps_its_key_below_the_archive_of_an_object_store() -> None:
    source = FilesSource.model_validate({"path": "s3://lake/in", "format": "text", "max_files_per_trigger": 1})
    assert cleaning.archived(source, "s3a://lake/in/below/0 a.json") == "s3://lake/in.archived/in/below/0 a.json"
