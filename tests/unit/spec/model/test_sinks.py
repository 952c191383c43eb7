"""Sinks that are no tables."""

from __future__ import annotations

import pytest

HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\n"


def files(path):
    return HEAD + f"sink: {{files: {{path: {path!r}, format: parquet}}}}\n"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("out", "an absolute path"),
        ("s3://bucket/out", "no rename lets just one of two writers win"),
        ("file:///out", "as a plain path"),
    ],
)
def test_files_stand_in_a_folder_of_this_machine(stream, path, words):
    [problem] = stream(files(path)).problems
    assert problem.path == "sink.files.path"
    assert words in problem.message


@pytest.mark.parametrize("other", ["/data/out", "/data/out/more", "/data", "/data/./out", "/data/in/../out"])
def test_a_folder_has_one_stream_and_none_inside_it(project, other):
    loaded = project({"conf/streams/a.yaml": files("/data/out"), "conf/streams/b.yaml": files(other)})
    [problem] = loaded.problems
    assert (problem.file, problem.path) == ("conf/streams/b.yaml", "sink.files.path")
    assert "stream a writes /data/out" in problem.message


def test_folders_beside_each_other_are_fine(project):
    loaded = project({"conf/streams/a.yaml": files("/data/out"), "conf/streams/b.yaml": files("/data/out2")})
    assert list(loaded.problems) == []


@pytest.mark.parametrize(
    ("read", "feeds"),
    [
        ("/data/out", True), ("file:///data/out/seq=*", True), ("/data", True), ("/data/in/../out/", True),
        ("/data/*", True), ("/data/{in,out}/x/*.csv", True), ("/data/outer", False), ("/data/*.csv", False),
        ("/data/in/*", False), ("data/out", False),
    ],
)  # fmt: skip
def test_a_stream_does_not_read_the_files_that_it_writes(stream, read, feeds):
    """Files below the source folder are read too, so each batch would become rows of the next."""
    found = stream(
        f"owner: x\nsource: {{files: {{path: {read!r}, format: text, max_files_per_trigger: 5}}}}\n"
        "sink: {files: {path: /data/out, format: parquet}}\nquarantine: {table: n.q}\n"
    )
    errors = [each for each in found.problems if each.severity == "error"]
    assert [(each.path, "feed itself" in each.message) for each in errors] == [("source.files.path", True)] * feeds


def test_a_console_shows_so_many_rows(stream):
    loaded = stream(HEAD + "sink: {console: {rows: 3}}\n")
    assert list(loaded.problems) == []
    assert loaded.streams["a"].spec.sink.console.rows == 3
    [problem] = stream(HEAD + "sink: {console: {rows: 0}}\n").problems
    assert problem.path == "sink.console.rows"


SENDS = "from words import polite\n\n\ndef send(df, batch):\n    return polite(df)\n"
PYTHON = {"python/mine.py": SENDS, "python/words.py": "def polite(df): ...\n", "python/other.py": "import nope_zz\n"}


def test_a_function_travels_with_what_it_imports_and_one_of_a_package_does_not(project):
    sink = "sink: {python: 'mine:send', connection: hook}\n"
    loaded = project({"conf/streams/a.yaml": HEAD + sink, **PYTHON})
    assert list(loaded.problems) == []
    spec = loaded.streams["a"].spec
    assert (sorted(spec.sink.code), spec.sink.connection) == (["mine.py", "words.py"], "hook")
    assert loaded.streams["a"].origins["sink.code.mine.py"] == "python/mine.py"
    assert type(spec).model_validate(spec.document()) == spec
    installed = project({"conf/streams/a.yaml": HEAD + "sink: {python: 'json.tool:main'}\n", **PYTHON})
    assert list(installed.problems) == []
    assert installed.streams["a"].spec.sink.code is None


BAD_PYTHON = [
    ("{python: 'mein:send'}", SENDS, "a.yaml:3", "there is no module mein in python/"),
    ("{python: 'mine:sned'}", SENDS, "a.yaml:3", "did you mean send?"),
    ("{python: 'mine:send'}", "def send(df): ...\n", "python/mine.py:1:1", "write def send(df, batch)"),
    ("{python: 'mine:send'}", "def send(a, b, c): ...\n", "python/mine.py:1:1", "write def send(df, batch)"),
    ("{python: 'mine:send'}", "def send(a, b, *, c): ...\n", "python/mine.py:1:1", "write def send(df, batch)"),
    ("{python: 'mine:send'}", "async def send(a, b): ...\n", "python/mine.py:1:1", "write def"),
    ("{python: 'mine:send', code: {a: b}}", SENDS, "a.yaml:3", "unknown key 'code'"),
    ("{console: {}, connection: hook}", SENDS, "a.yaml:3", "connection is for a python sink; this sink is console"),
]


@pytest.mark.parametrize(("sink", "code", "place", "words"), BAD_PYTHON, ids=range(len(BAD_PYTHON)))
def test_a_function_that_cannot_be_called_is_reported_with_its_place(project, sink, code, place, words):
    loaded = project({"conf/streams/a.yaml": f"{HEAD}sink: {sink}\n", **PYTHON, "python/mine.py": code})
    [problem] = [each.text() for each in loaded.problems]
    assert place in problem
    assert words in problem


@pytest.mark.parametrize("code", ["def send(a, b, c=1, *, d=2): ...", "def send(*a): ...", "send = print"])
def test_a_function_may_take_more_than_it_is_given(project, code):
    assert not project({"conf/streams/a.yaml": HEAD + "sink: {python: 'mine:send'}\n", "python/mine.py": code}).problems


def postgres(table="t", more="", connection="c"):
    return HEAD + f"sink: {{postgres: {{connection: {connection}, table: {table}{more}}}}}\n"


@pytest.mark.parametrize("table", ["t", "app.t", "App.T_1"])
def test_a_table_of_postgresql_has_a_name_and_maybe_a_schema(stream, table):
    loaded = stream(postgres(table))
    assert list(loaded.problems) == []
    sink = loaded.streams["a"].spec.sink
    assert (sink.table, sink.rows_in) == (None, f"c:{table if '.' in table else 'public.' + table}")


@pytest.mark.parametrize("table", ["a.b.c", "lakeward_positions", "app.lakeward_positions", "''", "t" * 64])
def test_another_name_is_none_of_postgresql(stream, table):
    [problem] = stream(postgres(table)).problems
    assert problem.path == "sink.postgres.table"


def test_order_by_belongs_to_an_upsert_and_an_upsert_has_keys(stream):
    assert list(stream(postgres(more=", mode: upsert, keys: [a], order_by: b")).problems) == []
    [problem] = stream(postgres(more=", order_by: b")).problems
    assert "belongs to mode upsert" in problem.message
    [problem] = stream(postgres(more=", mode: upsert")).problems
    assert "needs keys" in problem.message


def test_one_stream_upserts_and_any_number_append(project):
    keyed = ", mode: upsert, keys: [a]"
    appends = {f"conf/streams/{name}.yaml": postgres(table) for name, table in (("a", "t"), ("b", "public.t"))}
    assert list(project(appends).problems) == []
    loaded = project({**appends, "conf/streams/c.yaml": postgres(more=keyed)})
    [problem] = loaded.problems
    assert (problem.file, problem.path) == ("conf/streams/c.yaml", "sink.postgres.mode")
    assert "a, b writes c:public.t too" in problem.message
    elsewhere = postgres(more=keyed, connection="d")
    assert list(project({**appends, "conf/streams/c.yaml": elsewhere}).problems) == []


UPDATE = "sink: {kafka: {topic: u, mode: update%s}}\n"
GROUPS = "transform: {sql: 'SELECT year, count(*) AS n FROM source GROUP BY year'}\n"


def test_changes_of_groups_need_groups_and_a_key(stream):
    [problem] = stream(HEAD + GROUPS + UPDATE % "").problems
    assert problem.path == "sink.kafka"
    assert "add key: to_json(struct(" in problem.message
    [problem] = stream(HEAD + UPDATE % ", key: year").problems
    assert problem.path == "sink.kafka.mode"
    assert "the SQL groups nothing; use mode: append" in problem.message
    loaded = stream(HEAD + GROUPS + UPDATE % ", key: year" + "state: {max_rows: 9}\n")
    assert list(loaded.problems) == [], "a group need never be done: its changes are what is sent"
    assert loaded.streams["a"].spec.lineage == "none"
