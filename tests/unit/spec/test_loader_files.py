"""The files of a project as files: those that cannot be read, those that are not read, and what nothing uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from problems import texts
from rights import READS_ALL


def test_files_that_are_no_text(tmp_path, project, minimal):
    project({"conf/streams/good.yaml": minimal})
    folder = tmp_path / "conf" / "streams"
    (folder / "latin.yaml").write_bytes(b"owner: \xff\xfe")
    (folder / "huge.yaml").write_text("# " + "x" * 1_000_001)
    (folder / "folder.yaml").mkdir()
    (folder / "gone.yaml").symlink_to(folder / "nowhere")
    (folder / "bomb.yaml").write_text("a: &a [x]\n" + "\n".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]" for i in range(9)))  # fmt: skip
    (folder / "loop.yaml").write_text("&a [*a]")
    (folder / "list.yaml").write_text("- a")
    (folder / "empty.yaml").write_text("")
    loaded = project({})
    said = texts(loaded)
    for file, words in {
        "latin.yaml": "this is not UTF-8 text: byte 7",
        "huge.yaml": "too large for a spec",
        "folder.yaml": "cannot be read",
        "gone.yaml": "cannot be read",
        "bomb.yaml": "20,000 values, or its aliases multiply; a set of a suite that is so long belongs into a table",
        "loop.yaml": "an alias contains itself",
        "list.yaml": "must be a mapping",
        "empty.yaml": "sources: this is missing",
    }.items():
        assert any(file in line and words in line for line in said.splitlines()), said
    assert list(loaded.streams) == ["good"]


@pytest.mark.parametrize(
    "file",
    [
        "conf/lakeward.yml", "conf/tables.YAML", "conf/streams/b.YML", "conf/streams/more/b.yaml",
        "expectations/nyc.a.yml", "expectations/nyc/a.yaml",
    ],
)  # fmt: skip
def test_a_file_that_is_not_read_is_reported(project, minimal, file):
    loaded = project({"conf/streams/a.yaml": minimal, file: "a: 1\n", "conf/streams/sql/a.sql": "SELECT 1"})
    assert [(problem.file, problem.message[:21]) for problem in loaded.problems] == [(file, "this file is not read")]


@pytest.mark.parametrize("file", ["conf/lakeward.yaml", "conf/tables.yaml"])
def test_settings_that_are_a_link_to_nowhere_are_no_defaults(tmp_path, project, minimal, file):
    project({"conf/streams/a.yaml": minimal})
    (tmp_path / file).symlink_to(tmp_path / "nowhere")
    assert [(each.file, "cannot be read" in each.message) for each in project({}).problems] == [(file, True)]


def test_what_nothing_uses_is_reported_and_stops_nobody(project, minimal):
    policy = "{match: other.*, observe: 2m}"
    policies = f"policies: [{{match: 'nyc.*', observe: 2m}}, {policy}]"
    loaded = project(
        {
            "conf/streams/a.yaml": minimal + "reference: {r: {csv: r.csv}}\nresources: {driver: used}\n",
            "r.csv": "a,b\n",
            "conf/lakeward.yaml": "drivers:\n  used: {cores: 1}\n  other: {cores: 1}\n",
            "conf/tables.yaml": f"{policies}\nunsafe: [{policy[:-1]}, why: x}}]",
        }
    )
    assert [(each.file, each.path, each.line, each.severity) for each in loaded.problems] == [
        ("conf/lakeward.yaml", "drivers.other", 3, "warning"),
        ("conf/streams/a.yaml", "reference.r", 8, "warning"),
        ("conf/tables.yaml", "policies[1].match", 1, "warning"),
        ("conf/tables.yaml", "unsafe[0].match", 2, "warning"),
    ]
    assert loaded.ok
    assert "a" in loaded.streams


def test_a_secret_in_an_sql_file_is_refused_and_never_shown(stream, minimal):
    text = "SELECT *, 'Bearer eyJhbGciOiJIUzI1NiJ9' AS t FROM source"
    loaded = stream(minimal + "transform: {file: a.sql}\n", **{"conf/streams/a.sql": text})
    assert "looks like a secret" in texts(loaded)
    assert "eyJ" not in repr(loaded.problems)


def test_no_project_here(tmp_path):
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.loader import load_project

    loaded = load_project(Project(tmp_path))
    assert "lakeward init DIR creates one" in texts(loaded)
    assert not loaded.ok


def test_a_missing_project_folder_is_a_problem_not_a_crash():
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.loader import load_project

    assert not load_project(Project(Path("/nonexistent"))).ok


@pytest.mark.parametrize("written", ["transform: {file: l.sql}", "reference: {r: {csv: conf/streams/l.sql}}",
                                     "reference: {r: {parquet: conf/streams/l.sql}}"])  # fmt: skip
def test_a_link_that_leads_in_a_circle_is_reported_as_such(tmp_path, stream, minimal, written):
    stream(minimal)
    (tmp_path / "conf" / "streams" / "l.sql").symlink_to("l.sql")
    said = texts(stream(minimal + written + "\n"))
    assert "cannot be read: Too many levels of symbolic links" in said
    assert "there is no such" not in said


def test_a_link_to_nowhere_is_reported_as_such(tmp_path, stream, minimal):
    stream(minimal)
    (tmp_path / "l.csv").symlink_to("nowhere.csv")
    assert "l.csv cannot be read: it is a link to nowhere" in texts(stream(minimal + "reference: {r: {csv: l.csv}}\n"))


@pytest.mark.parametrize("folder", ["conf", "conf/streams", "expectations"])
def test_a_folder_that_leads_in_a_circle_is_no_empty_one(tmp_path, folder):
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.loader import load_project

    (tmp_path / folder).parent.mkdir(exist_ok=True)
    (tmp_path / folder).symlink_to(Path(folder).name)
    assert "cannot be read: Too many levels of symbolic links" in texts(load_project(Project(tmp_path)))


@pytest.mark.skipif(READS_ALL, reason="root reads everywhere")
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
@pytest.mark.parametrize("folder", ["conf", "conf/streams", "expectations", "data"])
def test_a_folder_nobody_may_look_into_is_reported(tmp_path, project, minimal, folder, mode):
    from lakeward.platform.runtime import Project
    from lakeward.spec.read.loader import load_project

    files = {
        "conf/streams/a.yaml": minimal + "reference: {r: {csv: data/no.csv}}\n", "conf/tables.yaml": "policies: []",
        "conf/lakeward.yaml": "drivers: {}", "expectations/n.t.yaml": "a: 1", "data/r.csv": "a,b",
    }  # fmt: skip
    project(files)
    (tmp_path / folder).chmod(mode)
    try:
        said = texts(load_project(Project(tmp_path)))
    finally:
        (tmp_path / folder).chmod(0o700)
    told = "Permission denied" in said
    assert told or (folder, mode) in {("conf", 0o100), ("data", 0o400), ("data", 0o100)}, said
