"""Requirements files: every package with its version and its hashes, kept as lines in normal form."""

from __future__ import annotations

import pytest
from problems import texts

from lakeward.spec.python import packages

H1, H2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64
HEAD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 5}}
sink: {python: "mine:send"}
requirements: requirements.txt
"""
SENDS = "import redis_zz\n\n\ndef send(df, batch): ...\n"
LOCKED = f"""\
# written by uv
Redis_ZZ[hiredis] == 5.0.1 ; python_version < "3.99" \\
    --hash={H2} \\
    --hash={H1}
    # via -r requirements.in
aaa==1.0 --hash={H1}
"""


def files(lock: str = LOCKED, **more: str) -> dict[str, str]:
    return {"conf/streams/a.yaml": HEAD, "python/mine.py": SENDS, "python/requirements.txt": lock, **more}


def test_a_generation_holds_the_lines_and_not_how_they_were_written(project) -> None:
    loaded = project(files())
    assert not loaded.problems, texts(loaded)
    spec = loaded.streams["a"].spec
    assert spec.packages == (
        f"aaa==1.0 --hash={H1}",
        f'redis-zz[hiredis]==5.0.1 ; python_version < "3.99" --hash={H1} --hash={H2}',
    )
    assert loaded.streams["a"].origins["packages"] == "python/requirements.txt"
    assert type(spec).model_validate(spec.document()) == spec
    other = LOCKED.replace("# written by uv", "# by somebody else").replace(" == ", "==")
    assert project(files(other)).streams["a"].spec == spec
    name, version, requirement = packages.pinned(spec.packages[1])
    assert (name, version, str(requirement.marker)) == ("redis-zz", "5.0.1", 'python_version < "3.99"')


BAD = [
    (f"aaa>=1 --hash={H1}", 1, "aaa has no one version; write the file with: uv pip compile"),
    (f"aaa==1.* --hash={H1}", 1, "aaa has no one version"),
    (f"aaa @ https://h/a.whl --hash={H1}", 1, "aaa has no one version"),
    ("# one\n\naaa==1", 3, "aaa has no --hash=sha256"),
    ("aaa==1 --hash=md5:1234", 1, "aaa has no --hash=sha256"),
    (f"aaa==1 --hash={H1}\nAAA==1 --hash={H1}", 2, "AAA is listed twice"),
    ("--index-url https://h/simple", 1, "configure the index in uv"),
    ("-r other.txt", 1, "only packages are allowed here"),
    ("a b c", 1, "this is not a requirement"),
    ("K==1 # AKIAIOSFODNN7EXAMPLE", 1, "like a secret"),
]


@pytest.mark.parametrize(("lock", "line", "words"), BAD, ids=[each[2] + each[0] for each in BAD])
def test_a_line_that_says_too_little_is_reported_with_its_place(project, lock, line, words) -> None:
    found = [(each.file, each.line, each.text()) for each in project(files(lock)).problems]
    assert any(file == "python/requirements.txt" and at == line and words in text for file, at, text in found), found


def test_a_file_that_is_not_there_or_has_no_use_is_reported(project) -> None:
    [problem] = project(files(**{"conf/streams/a.yaml": HEAD.replace("ments.txt", "ment.txt")})).problems
    assert (problem.path, problem.line, problem.nearest) == ("requirements", 4, "requirements.txt")
    [problem] = project(files(**{"conf/streams/a.yaml": HEAD.replace("ments.txt", "ments/../../x")})).problems
    assert "there is no file" in problem.message
    console = HEAD.replace('{python: "mine:send"}', "{console: {}}")
    [problem] = project(files(**{"conf/streams/a.yaml": console})).problems
    assert "this stream has no Python function" in problem.message
    default = "defaults: {requirements: requirements.txt}\n"
    tidy = {"conf/streams/a.yaml": console.replace("requirements: requirements.txt\n", "")}
    assert not project(files(**tidy, **{"conf/lakeward.yaml": default})).problems
    written = project(files(**{"conf/streams/a.yaml": HEAD + "packages: [a]\n", "conf/lakeward.yaml": ""}))
    assert ["unknown key 'packages'" in each.message for each in written.problems] == [True]


def test_streams_of_one_driver_have_the_same_packages_or_none(project) -> None:
    shared = HEAD + "resources: {driver: both}\n"
    both = {"conf/streams/a.yaml": shared, "conf/streams/b.yaml": shared}
    assert not project(files(**both)).problems
    without = shared.replace("requirements: requirements.txt\n", "").replace('python: "mine:send"', "console: {}")
    assert not project(files(**{**both, "conf/streams/b.yaml": without})).problems
    other = {"conf/streams/b.yaml": shared.replace("ments.txt", "ments-b.txt"), "python/requirements-b.txt": "aaa==2"}
    other["python/requirements-b.txt"] += f" --hash={H1}\n"
    [problem] = project(files(**{**both, **other})).problems
    assert (problem.file, problem.path) == ("conf/streams/b.yaml", "requirements")
    assert "stream a shares driver both and needs other packages" in problem.message
