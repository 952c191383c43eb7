"""One pass over a project tells everything that is wrong, and nothing that only follows from something else."""

from __future__ import annotations

import pytest
from problems import texts

PLAIN = """\
source:
  kafka: {topics: [t], max_offsets_per_trigger: 100}
decode: {json: "a INT, b STRING, l ARRAY<INT>, ts TIMESTAMP"}
sink:
  iceberg: {table: n.t}
"""
OWNED = "owner: me\n" + PLAIN


def told(loaded) -> list[str]:
    """file:path of every problem."""
    return [f"{each.file.rpartition('/')[2].removesuffix('.yaml')}:{each.path}" for each in loaded.problems]


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        (("100", "'1', pattern: x"), ["source.kafka", "source.kafka.max_offsets_per_trigger"]),
        (
            ("source:\n", "trigger: {every: 10x, available_now: true, schedule: foo}\nsource:\n"),
            ["trigger", "trigger.every", "trigger.schedule"],
        ),
        (
            ("source:\n", "resources: {executors: {min: 5, max: 2, foo: 1}}\nsource:\n"),
            ["resources.executors", "resources.executors.foo"],
        ),
        (("n.t}", "n.t, mode: upsert, write: x}"), ["sink.iceberg", "sink.iceberg.write"]),
        (
            ("n.t}", "n.t, partition_by: [dayz(a), b, nope]}"),
            ["sink.iceberg.partition_by[0]", "sink.iceberg.partition_by[2]"],
        ),
        (
            ("n.t}", "t, partition_by: [nope], properties: {lakeward.x: 'no'}}"),
            ["sink.iceberg.table", "sink.iceberg.partition_by[0]", "sink.iceberg.properties[lakeward.x]"],
        ),
        (
            ("source:\n", "reference: {r: {csv: c, parquet: p, refresh: 1}}\nsource:\n"),
            ["reference.r", "reference.r", "reference.r.csv", "reference.r.refresh"],
        ),
        (
            ("source:\n  kafka: {", "spark: {spark.wap.id: x}\nsource:\n  kafka: 5 #"),
            ["spark[spark.wap.id]", "source.kafka"],
        ),
        (
            ("source:\n", "transform: {sql: SELECT max(a) AS a FROM source}\nsource:\n  foo: 1\n"),
            ["source", "source.foo"],
        ),
        (("iceberg: {table: n.t}", "kafka: {topic: a b}"), ["quarantine", "sink.kafka.topic"]),
        (("source:\n", "id: Nope\nrules: {r: 'zz > 1'}\nsource:\n"), ["id", "rules.r"]),
    ],
)
def test_one_mistake_hides_no_other(stream, change, paths):
    assert change[0] in OWNED
    assert [problem.path for problem in stream(OWNED.replace(change[0], change[1], 1)).problems] == paths


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("source:\n", "transform: {sql: ''}\nsource:\n"), "transform.sql"),
        (("source:\n", "resources: {executors: {min: 5, max: x}}\nsource:\n"), "resources.executors.max"),
        (("n.t}", "n.t, mode: upsrt, keys: [a]}"), "sink.iceberg.mode"),
        (("n.t}", "n.t, mode: upsert, kys: [a]}"), "sink.iceberg.kys"),
        (("n.t}", "n.t, mode: complet}\ntransform: {sql: SELECT count(*) AS n FROM source}"), "sink.iceberg.mode"),
        (("n.t}", "n.t}\ntransform: {sql: SELECT * FROM f}\nrefernce: {f: {csv: f}}"), "refernce"),
        (("[t]", "['a b'], starting_offsets: {t: {'0': 1}}"), "source.kafka.topics[0]"),
        (("source:\n", "watermark: {column: a b, delay: 1h}\ntransform: {sql: SELECT max(a) AS a FROM source}\n"
          "source:\n"), "watermark.column"),
        (("source:\n", "reference: {r: {csv: 5}}\nlineage: none\ntransform: {sql: 'SELECT r.n FROM source JOIN r "
          "ON true'}\nsource:\n"), "reference.r.csv"),
    ],
)  # fmt: skip
def test_what_only_follows_is_not_reported(stream, change, path):
    assert change[0] in OWNED
    assert [problem.path for problem in stream(OWNED.replace(change[0], change[1], 1)).problems] == [path]


def test_streams_with_mistakes_are_compared_too(project):
    loaded = project(
        {
            "conf/streams/a.yaml": OWNED + "foo: 1\n",
            "conf/streams/b.yaml": OWNED.replace("n.t}", "n.t, partition_by: [b]}") + "foo: 1\n",
            "conf/streams/c.yaml": "id: a\n" + OWNED.replace("n.t", "n.c"),
            "conf/streams/d.yaml": OWNED.replace("n.t", "n.d") + "quarantine: {table: n.t}\nfoo: 1\n",
            "conf/streams/e.yaml": OWNED.replace("n.t}", "5, partition_by: [b]}"),
            "conf/streams/f.yaml": OWNED.replace("n.t}", "6}"),
            "conf/streams/g.yaml": OWNED.replace("n.t", "n.g") + "id: G\n",
            "conf/streams/h.yaml": OWNED.replace("n.t", "n.h") + "id: H\n",
            "conf/streams/i.yaml": OWNED.replace("n.t", "n.i") + "quarantine: 5\nresources: {driver: i, cores: 0}\n",
            "conf/streams/j.yaml": OWNED.replace("n.t", "n.i_quarantine") + "resources: {driver: i, cores: 2}\n",
        }
    )
    assert told(loaded) == [
        "a:foo", "b:sink.iceberg.partition_by", "b:foo", "c:id", "d:quarantine.table", "d:foo",
        "e:sink.iceberg.table", "f:sink.iceberg.table", "g:id", "h:id", "i:quarantine", "i:resources.cores",
    ]  # fmt: skip
    assert set(loaded.streams) == {"j"}


def test_another_partitioning_is_reported_as_it_is_written(project):
    loaded = project(
        {
            "conf/streams/a.yaml": OWNED,
            "conf/streams/b.yaml": OWNED.replace("n.t}", "n.t, partition_by: [days(ts), b]}"),
        }
    )
    assert "a creates n.t with another partitioning: none (here: days(ts), b)" in texts(loaded)


def test_a_table_is_partitioned_by_single_values(stream):
    loaded = stream(OWNED.replace("n.t}", "n.t, partition_by: [l]}"))
    assert "partition_by[0]: a table is partitioned by single values; l is ARRAY<INT>" in texts(loaded)


SUITE = "table: n.t\nowner: x\nexpectations: [{type: expect_a}]\n"


@pytest.mark.parametrize("broken", [OWNED + "foo: 1\n", OWNED.replace("n.t", "5"), "a: [\n", "id: B\n" + OWNED])
def test_a_stream_that_cannot_be_read_may_write_the_table(project, broken):
    other = OWNED.replace("n.t", "n.o")
    loaded = project({"conf/streams/a.yaml": other, "conf/streams/b.yaml": broken, "expectations/n.t.yaml": SUITE})
    assert {problem.file for problem in loaded.problems} == {"conf/streams/b.yaml"}
    loaded = project({"conf/streams/b.yaml": other.replace("n.o", "n.p")})
    assert told(loaded) == ["n.t:table"]


@pytest.mark.parametrize(
    ("lakeward", "paths"),
    [
        ("defaults:\n\towner: me\n", ["lakeward:"]),
        ("defaults: {owner: 5}\n", ["lakeward:defaults.owner"]),
        ("defaults: me\n", ["lakeward:defaults"]),
        ("defaults: {team: ops}\n", ["s:owner"]),
    ],
)
def test_an_owner_that_cannot_be_read_is_not_missing(project, lakeward, paths):
    loaded = project({"conf/lakeward.yaml": lakeward, "conf/streams/s.yaml": PLAIN})
    assert told(loaded) == paths
    assert not loaded.streams


@pytest.mark.parametrize("lakeward", ["foo: 1\ndrivers: {d: {}}\n", "drivers: {d: {cores: 0}}\n", "drivers: [\n"])
def test_a_driver_that_is_declared_is_not_to_be_declared(project, lakeward):
    streams = {"conf/streams/a.yaml": OWNED + "resources: {driver: d}\n"}
    streams["conf/streams/b.yaml"] = OWNED.replace("n.t", "n.b") + "resources: {driver: d, cores: 2}\n"
    assert "declare the driver once" not in texts(project({**streams, "conf/lakeward.yaml": lakeward}))
    assert "declare the driver once" in texts(project({**streams, "conf/lakeward.yaml": "drivers: {}\n"}))


def test_a_problem_of_the_defaults_is_reported_there_and_once(project):
    lakeward = "defaults:\n  owner: m\n  resources: {driver: d, cores: 2}\ndrivers: {d: {}}\n"
    streams = {"conf/streams/a.yaml": PLAIN, "conf/streams/b.yaml": PLAIN.replace("n.t", "n.b")}
    (problem,) = project({"conf/lakeward.yaml": lakeward, **streams}).problems
    assert problem.text().startswith("conf/lakeward.yaml:3:33  defaults.resources.cores: driver d is declared in")


def test_files_that_begin_with_a_dot_are_an_editors(tmp_path, project):
    project({"conf/streams/s.yaml": OWNED, "expectations/.n.t.yaml.swp": "x", "conf/streams/.#s.yml": "x"})
    (tmp_path / "conf" / "streams" / ".#s.yaml").symlink_to("me@here.1234")
    (tmp_path / "expectations" / ".#n.t.yaml").symlink_to("me@here.1234")
    assert texts(project({})) == ""


def test_an_infinite_number_is_shown(stream):
    assert "lag_records: this must be a whole number, without quotes (here: inf)" in texts(
        stream(OWNED + "limits: {lag_records: 1e999}\n")
    )
