"""Every problem at its place, in words; none hides another."""

from __future__ import annotations

import pytest
from problems import texts

ALL_KEYS = """\
id: everything
owner: data-platform
team: ops
tags: [core]
enabled: true
sources:
  flights:
    kafka: {topics: [flights], connection: lakeward_kafka, starting_offsets: {flights: {"0": 15}},
            max_offsets_per_trigger: 100, isolation_level: read_committed}
    decode: {json: "carrier STRING, time_hour TIMESTAMP", columns: value}
    watermark: {column: time_hour, delay: 2h}
reference:
  airlines: {csv: conf/airlines.csv, columns: "carrier STRING, name STRING", nulls: NA, refresh: 10m}
transform: {file: everything.sql}
rules: {carrier_there: "carrier IS NOT NULL"}
sink:
  iceberg: {table: nyc.everything, mode: append, partition_by: [carrier, "days(time_hour)"],
            properties: {format-version: "3"}, commit: exact}
quarantine: {table: nyc.everything_quarantine}
schema: {evolution: fixed}
trigger: {every: 10s}
lineage: rows
limits: {freshness: 2m, lag_records: 100000, stall: 5m}
state: {provider: rocksdb}
resources: {driver: core, cores: 2, driver_memory: 1g}
spark: {spark.sql.shuffle.partitions: 4}
restart: {max_backoff: 10m, reset_after: 30m}
"""


def test_the_minimal_stream_is_resolved(stream, minimal):
    loaded = stream(minimal)
    assert texts(loaded) == ""
    assert loaded.ok
    spec = loaded.streams["a"].spec
    assert spec.id == "a"
    assert list(spec.sources) == ["source"]
    assert spec.lineage == "rows"
    assert spec.driver == "a"
    assert spec.tables == ("nyc.flights", "nyc.flights_quarantine")
    assert spec.transform.sql == "SELECT * FROM source"


def test_all_keys_of_the_grammar_are_read(project):
    loaded = project(
        {
            "conf/streams/everything.yaml": ALL_KEYS,
            "conf/streams/everything.sql": "SELECT f.*, a.name FROM flights f LEFT JOIN airlines a USING (carrier)",
            "conf/airlines.csv": "carrier,name\n",
        }
    )
    assert texts(loaded) == ""
    found = loaded.streams["everything"]
    assert found.sql_file == "conf/streams/everything.sql"
    assert found.spec.reference["airlines"].csv.endswith("/conf/airlines.csv")
    assert found.spec.sink.iceberg.partition_by[1].sql == "days(`time_hour`)"
    assert found.spec.spark == {"spark.sql.shuffle.partitions": "4"}


def test_a_resolved_spec_reads_back_as_itself(stream, minimal):
    spec = stream(minimal).streams["a"].spec
    assert type(spec).model_validate(spec.document()) == spec
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec


# (what is changed in the minimal stream, where it is reported, words of the text)
WRONG = [
    (("kafka:", "kafak:"), "a.yaml:3:3", "source.kafak: unknown key 'kafak'; did you mean kafka?"),
    (("decode:", "dekode:"), "a.yaml:4:1", "dekode: unknown key 'dekode'; did you mean decode?"),
    (("{json:", "{jason:"), "a.yaml:4:10", "decode.jason: unknown key 'jason'; did you mean json?"),
    (("every: 10s", "every: 10"), "a.yaml:7:18", "trigger.every: a duration is a number and a unit"),
    (("every: 10s", "every: 10x"), "a.yaml:7:18", "10s, 5m, 2h or 7d (here: 10x)"),
    (("every: 10s", "every: 10s, real_time: 5m"), "a.yaml:7:10", "trigger has every and real_time; it needs exactly"),
    (("every: 10s", "available_now: true"), "a.yaml:7:10", "available_now needs a schedule"),
    (("[flights]", "flights"), "a.yaml:3:19", "source.kafka.topics: this must be a list"),
    (("[flights]", "[]"), "a.yaml:3:10", "kafka needs exactly one of: topics, pattern"),
    (("20000", '"20000"'), "a.yaml:3:55", "this must be a whole number, without quotes"),
    (("20000", "0"), "a.yaml:3:55", "this must be more than 0"),
    ((", max_offsets_per_trigger: 20000", ""), "a.yaml:3:3", "max_offsets_per_trigger: this is missing: maximum"),
    (("owner: data-platform\n", ""), "a.yaml:1:1", "owner: this is missing: who is contacted when it fails"),
    (("DOUBLE", "DUBBLE"), "a.yaml:4:53", "DUBBLE is not a type here; did you mean DOUBLE?"),
    (("days(", "dayz("), "a.yaml:6:48", "a partition field is a column, days(column)"),
    (("nyc.flights", "flights"), "a.yaml:6:20", "a table is namespace.table"),
    (("iceberg: {", "iceberg: {mode: apend, "), "a.yaml:6:19", "'apend' is not known here; did you mean append?"),
    (("iceberg: {", "iceberg: {keys: [a], "), "a.yaml:6:12", "keys belongs to mode upsert; this is append"),
    (("  iceberg:", "  delta:"), "a.yaml:6:46", "partition_by"),
    (("trigger: {", "sources: {}\ntrigger: {"), "a.yaml:7:1", "give source: (one, then named source) or sources:"),
    (("source:\n", "tags: core\nsource:\n"), "a.yaml:2:7", "tags: this must be a list"),
    (("source:\n", f"tags: [{'x' * 101}]\nsource:\n"), "a.yaml:2:8", "a tag is text of 1 to 100 characters"),
    (("source:\n", "restart: {reset_after: 9999999999999d}\nsource:\n"), "a.yaml:2:24", "at most 36500d"),
    (("every: 10s", "every: 0.4ms"), "a.yaml:7:18", "a duration here must be more than 0: 1ms at least"),
    (("source:\n", "transform: {sql: SELECT * FROM source LIMIT 5}\nsource:\n"), "a.yaml:2:39", "LIMIT counts over"),
    (("source:\n", "source:\n  decode: {json: a INT}\n"), "a.yaml:3:3", "both beside source: and inside it"),
    (("source:\n  kafka", "sources:\n  kafka"), "a.yaml:4:1", "decode is allowed beside source: only"),
    (("  iceberg:", "  console:\n  #"), "a.yaml:6:3", "console is empty; write what it needs below it, or console: {}"),
    (("sink:\n  iceberg:", "sink:\nx:"), "a.yaml:5:1", "sink: this must be a mapping"),
    (("{json:", "{json_:"), "a.yaml:4:10", "unknown key 'json_'; did you mean json?"),
    (("source:\n", "schema_: {evolution: fixed}\nsource:\n"), "a.yaml:2:1", "unknown key 'schema_'"),
    (("[flights]", "[flights, flights]"), "a.yaml:3:19", "flights is listed twice"),
    (("topics: [flights]", "pattern: 'a(b'"), "a.yaml:3:20", "this is not a regular expression: missing )"),
    (("source:\n", "reference: {r: {csv: conf}}\nsource:\n"), "a.yaml:2:22", "conf is a folder; a CSV is one file"),
    (("source:\n", "reference: {r: {csv: 'http://h/x'}}\nsource:\n"), "a.yaml:2:22", "a CSV must be a local file"),
    (("source:\n", f"reference: {{r: {{csv: {'x' * 5000}}}}}\nsource:\n"), "a.yaml:2:22", "no such file in the"),
    (("source:\n", f"transform: {{file: {'x' * 5000}}}\nsource:\n"), "a.yaml:2:19", "this SQL file does not exist"),
    (("source:\n", 'transform: {file: "a\\0b"}\nsource:\n'), "a.yaml:2:19", "contains the invalid character 0x0000"),
    (("source:\n", 'team: "\\ud800"\nsource:\n'), "a.yaml:2:7", "contains the invalid character 0xd800"),
    (("source:\n", "limits: {lag_records: 5m}\nsource:\n"), "a.yaml:2:23", "(here: 5m)"),
    (("source:\n", "enabled: 'no'\nsource:\n"), "a.yaml:2:10", "this must be true or false"),
    (("source:\n", "id: Nope\nsource:\n"), "a.yaml:2:5", "a stream's id is lower case"),
    (("source:\n", "owner: again\nsource:\n"), "a.yaml:2:1", "key 'owner' is duplicate; the first is on line 1"),
    (("source:\n", "transform: {sql: ''}\nsource:\n"), "a.yaml:2:18", "transform.sql: this must not be empty"),
    (("source:\n", "tags: [1]\nsource:\n"), "a.yaml:2:8", "a tag is text of 1 to 100 characters (here: 1)"),
    (("[flights]", "['..']"), "a.yaml:3:20", "a topic is letters, digits, dots"),
    (("source:\n", "reference: {r: {csv: x}, R: {csv: x}}\nsource:\n"), "a.yaml:2:26", "'r' and 'R' are the same name"),
    (("source:\n", "transform: {sql: SELEC}\nsource:\n"), "a.yaml:2:18", "a transform is one SELECT"),
    (("source:\n", "transform: {file: x.sql}\nsource:\n"), "a.yaml:2:19", "this SQL file does not exist: conf/stre"),
    (("source:\n", "transform: {file: ../../../x}\nsource:\n"), "a.yaml:2:19", "must be inside the project"),
    (("source:\n", "transform: {sql: SELECT 1, file: b}\nsource:\n"), "a.yaml:2:12", "transform has sql and file"),
    (("source:\n", "rules: {r: 'x >'}\nsource:\n"), "a.yaml:2:12", "something is missing at the end"),
    (("source:\n", "rules: {'a b': x}\nsource:\n"), "a.yaml:2:9", "a name is letters, digits and _"),
    (("source:\n", "spark: {sql.x: 1}\nsource:\n"), "a.yaml:2:9", "starts with spark."),
    (("source:\n", "spark: {spark.driver.memory: 1g}\nsource:\n"), "a.yaml:2:9", "belongs to a whole driver"),
    (("source:\n", "spark: {spark.wap.id: x}\nsource:\n"), "a.yaml:2:9", "cannot be set: staging"),
    (("source:\n", "spark: {spark.sql.catalog.lake.uri: x}\nsource:\n"), "a.yaml:2:9", "catalogs are set in"),
    (("source:\n", "lineage: maybe\nsource:\n"), "a.yaml:2:10", "'maybe' is not known here; valid: rows, none"),
    (("source:\n", "watermark: {column: tim_hour, delay: 1h}\nsource:\n"), "a.yaml:2:21", "did you mean time_hour?"),
    (("source:\n", "watermark: {column: year, delay: 1h}\nsource:\n"), "a.yaml:2:21", "needs a TIMESTAMP column"),
    (("source:\n", "reference: {source: {csv: x}}\nsource:\n"), "a.yaml:2:13", "is the name of a source too"),
    (("source:\n", "reference: {r: {csv: x.csv}}\nsource:\n"), "a.yaml:2:22", "no such file in the project: x.csv"),
    (("source:\n", "reference: {r: {csv: x, parquet: y}}\nsource:\n"), "a.yaml:2:16", "reference has csv and parquet"),
    (("source:\n", "quarantine: {table: nyc.flights}\nsource:\n"), "a.yaml:2:21", "quarantine and sink are the same"),
    (("year INT", "_kafka_offset INT"), "a.yaml:4:16", "_kafka_offset is a column that Lakeward adds"),
    (("year INT", "_partition INT"), "a.yaml:4:16", "_partition is a name that Iceberg reserves"),
    (("iceberg: {", "iceberg: {properties: {write.wap.enabled: 'no'}, "), "a.yaml:6:26", "it stages every batch"),
    (("iceberg: {", "iceberg: {properties: {lakeward.x: 'no'}, "), "a.yaml:6:26", "it is Lakeward's record"),
    (('["days(time_hour)"]', "[carrier, carrier]"), "a.yaml:6:57", "and carrier already is one"),
    (('["days(', '["hours(time_hour)", "days('), "a.yaml:6:68", "and hours(time_hour) already is one"),
    (("days(time_hour)", "days(tim_hour)"), "a.yaml:6:48", "'tim_hour' is not a column of this stream"),
    (("days(time_hour)", "days(carrier)"), "a.yaml:6:48", "days takes a column of TIMESTAMP, DATE; carrier is STRING"),
    (("days(time_hour)", "truncate(4, time_hour)"), "a.yaml:6:48", "truncate takes a column of SMALLINT"),
    (("days(time_hour)", "bucket(4, dep_delay)"), "a.yaml:6:48", "bucket takes a column of"),
    (("days(time_hour)", "_partition"), "a.yaml:6:48", "_partition is a name that Iceberg reserves"),
    (("year INT", "year TINYINT"), "a.yaml:4:16", "cannot be TINYINT"),
    (("year INT", "year ARRAY<MAP<DATE, INT>>"), "a.yaml:4:16", "a MAP with keys of DATE: keys in JSON are text"),
    (("year INT", "year STRUCT<a: INT, `A`: INT>"), "a.yaml:4:37", "field A is listed twice in a STRUCT"),
    (("source:\n", "rules: {r: 'yeer > 1'}\nsource:\n"), "a.yaml:2:12", "is not a column of this stream; did you"),
    (("source:\n", "rules: {r: 'count(*) > 1'}\nsource:\n"), "a.yaml:2:12", "* is not allowed"),
    (("source:\n", "rules: {r: 'max(year) > 1'}\nsource:\n"), "a.yaml:2:12", "an aggregate is not allowed"),
    (("source:\n", "rules: {r: 'rank() OVER (ORDER BY a) = 1'}\nsource:\n"), "a.yaml:2:12", "a window function is"),
    (("source:\n", "rules: {r: 'explode(a)'}\nsource:\n"), "a.yaml:2:12", "a generator is not allowed"),
    (("source:\n", "rules: {r: 'inline_outer(a)'}\nsource:\n"), "a.yaml:2:12", "a generator is not allowed"),
    (("source:\n", "rules: {r: '{{ x }} > 1'}\nsource:\n"), "a.yaml:2:13", "are not supported; write the value itself"),
    (("max_offsets", "starting_offsets: {}, max_offsets"), "a.yaml:3:10", "starting_offsets names no topic"),
    (("max_offsets", "starting_offsets: {x: {'0': 1}}, max_offsets"), "a.yaml:3:10", "x, which is not read here"),
    (("max_offsets", "starting_offsets: {flights: {'01': 1}}, max_offsets"), "a.yaml:3:10", 'must be {"partition"'),
    (("max_offsets", "starting_offsets: {flights: {'0': -3}}, max_offsets"), "a.yaml:3:64", "at least -2"),
    (("max_offsets", "starting_offsets: {flights: {'0': '1'}}, max_offsets"), "a.yaml:3:64", "a whole number"),
    (("20000", "9223372036854775808"), "a.yaml:3:55", "this must be at most 9223372036854775807"),
    (("source:\n", "resources: {cores: 1025}\nsource:\n"), "a.yaml:2:20", "this must be at most 1024"),
    (("source:\n", "resources: {driver_memory: 64m}\nsource:\n"), "a.yaml:2:28", "512m at least"),
    (("source:\n", "spark: {spark.extraListeners: x}\nsource:\n"), "a.yaml:2:9", "belongs to a whole driver"),
    (("iceberg: {", "iceberg: {properties: {gc.enabled: 'no'}, "), "a.yaml:6:26", "maintenance needs it"),
    (("source:\n", "trigger: [\nsource:\n"), "a.yaml:", "this is not YAML"),
    (("owner: data-platform", "\towner: x"), "a.yaml:1:1", "a tab cannot indent; use spaces"),
    (("owner: data-platform", "owner: !!python/object:os.system x"), "a.yaml:1:8", "tags such as"),
    (("owner: data-platform", "owner: a: b"), "a.yaml:1:9", "put the text in quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "place", "words"), WRONG, ids=[words[:40] for _, _, words in WRONG])
def test_a_mistake_is_reported_with_its_place(stream, minimal, change, place, words):
    assert change[0] in minimal
    text = minimal.replace(change[0], change[1], 1)
    loaded = stream(text)
    assert not loaded.ok
    lines = [problem.text() for problem in loaded.problems]
    assert any(line.startswith(f"conf/streams/{place}") and words in line for line in lines), "\n".join(lines)
    assert "a" not in loaded.streams
    for line in lines:  # never pydantic's own words
        assert "pydantic" not in line
        assert "Input should" not in line
        assert "Value error" not in line


def test_one_pass_finds_the_mistakes_of_every_file(project, minimal):
    loaded = project(
        {
            "conf/streams/a.yaml": minimal.replace("10s", "10").replace("INT,", "INTT,").replace("owner:", "ovner:"),
            "conf/streams/b.yaml": "a: [1\n",
            "conf/streams/c.yml": "",
            "conf/streams/good.yaml": minimal.replace("nyc.flights", "nyc.good"),
            "conf/tables.yaml": "policies: [{match: nyc.*, compact: {min_fragmnts: 4}}]",
            "conf/lakeward.yaml": "drivers: {Core: {cores: 0}}",
            "expectations/nyc.flights.yaml": """\
                table: nyc.flights
                owner: x
                expectations: [{type: expect_a, severity: bad}]
            """,
        }
    )
    assert {(problem.file, problem.path) for problem in loaded.problems if problem.severity == "error"} == {
        ("conf/streams/a.yaml", "trigger.every"),
        ("conf/streams/a.yaml", "decode.json"),
        ("conf/streams/a.yaml", "ovner"),
        ("conf/streams/a.yaml", "owner"),
        ("conf/streams/b.yaml", ""),
        ("conf/streams/c.yml", ""),
        ("conf/tables.yaml", "policies[0].compact.min_fragmnts"),
        ("conf/lakeward.yaml", "drivers.Core"),
        ("conf/lakeward.yaml", "drivers.Core.cores"),
        ("expectations/nyc.flights.yaml", "expectations[0].severity"),
    }
    assert list(loaded.streams) == ["good"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("flights-.*", ""),
        ("a*+b|(?i)c", "global flags not at the start"),
        ("(?:a|b){2,3}", ""),
        (r"\(a\)", ""),
        (r"\p{Alpha}+", "bad escape"),
        ("[a-z&&[^b]]", "within another one ([a-z&&)"),
        ("[a[b-c]]x", "within another one ([a[)"),
        (r"[a&\[\]]\[[b]", ""),
        ("(?P<a>x)", "does not know (?P<"),
        (r"\(?P<", ""),
        ("(?<a>x)", "unknown extension"),
    ],
)
def test_a_pattern_is_one_that_java_and_python_read_alike(stream, minimal, pattern, why):
    said = texts(stream(minimal.replace("topics: [flights]", f"pattern: '{pattern}'")))
    assert (why in said and "write it with what both read alike" in said) if why else said == ""


@pytest.mark.parametrize("day", ["20261231", "1.5", "2026-12", "tomorrow", "2026-12-31T00:00:00Z", "2026-02-30"])
def test_a_waiver_ends_on_a_day(project, day):
    suite = "table: n.t\nowner: x\nexpectations: [{type: expect_a, waive_until: %s}]\n"
    assert "expectations[0].waive_until: this must be a day" in texts(project({"expectations/n.t.yaml": suite % day}))
    assert texts(project({"expectations/n.t.yaml": suite % "2026-12-31"})) == ""


def test_a_key_of_an_earlier_version_is_refused_with_what_to_do(project):
    suite = "table: n.t\nowner: x\nadvisory: false\nexpectations: [{type: expect_a}]\n"
    found = texts(project({"expectations/n.t.yaml": suite}))
    assert "expectations/n.t.yaml:3:1" in found
    assert "unknown key 'advisory': removed in 0.2" in found and "delete the line" in found


def test_sql_in_a_file_is_reported_in_that_file(stream, minimal):
    text = minimal + "transform: {file: a.sql}\n"
    (problem,) = stream(text, **{"conf/streams/a.sql": "SELECT *\nFROM sauce\n"}).problems[:1]
    assert (problem.file, problem.line, problem.column) == ("conf/streams/a.sql", 2, 6)
    assert "neither a source nor a reference" in problem.message
    assert problem.nearest == "source"
    (problem,) = stream(text, **{"conf/streams/a.sql": "SELECT *\nFROM source WHERE (\n"}).problems
    assert (problem.file, problem.line) == ("conf/streams/a.sql", 2)


def test_sql_in_a_block_is_reported_on_its_line(stream, minimal):
    text = minimal + "transform:\n  sql: |\n    SELECT *\n    FROM sauce\n"
    problem = stream(text).problems[0]
    assert (problem.line, problem.column) == (11, 10)


def test_a_value_from_the_defaults_is_reported_there(project, minimal):
    loaded = project({"conf/streams/a.yaml": minimal, "conf/lakeward.yaml": "defaults:\n  spark: {spark.wap.id: x}\n"})
    assert texts(loaded).startswith("conf/lakeward.yaml:2:11  defaults.spark[spark.wap.id]: spark.wap.id cannot be set")


def test_a_keep_time_that_would_remove_what_is_going_on_is_refused(project, minimal):
    loaded = project({"conf/streams/a.yaml": minimal, "conf/lakeward.yaml": "keep:\n  runs: 59m\n  batches: 1h\n"})
    assert texts(loaded).startswith("conf/lakeward.yaml:2:9  keep.runs: 59m would remove what is still going on")
    assert len(loaded.problems) == 1


def test_a_bad_default_is_reported_once_and_not_for_every_stream(project, minimal):
    streams = {f"conf/streams/{name}.yaml": minimal.replace("nyc.flights", f"nyc.{name}") for name in "abc"}
    loaded = project({**streams, "conf/lakeward.yaml": "defaults: {trigger: {every: 5}, sink: {}}"})
    assert [problem.path for problem in loaded.problems] == ["defaults.trigger.every", "defaults.sink"]
    assert set(loaded.streams) == {"a", "b", "c"}


def test_defaults_lie_under_the_file(project, minimal):
    loaded = project(
        {
            "conf/streams/a.yaml": minimal.replace("owner: data-platform\n", ""),
            "conf/lakeward.yaml": "defaults:\n  owner: them\n  trigger: {every: 1m}\n  limits: {stall: 9m}\n",
        }
    )
    assert texts(loaded) == ""
    found = loaded.streams["a"]
    assert (found.spec.owner, found.spec.trigger.every, found.spec.limits.stall) == ("them", "10s", "9m")
    assert found.origins["owner"] == "conf/lakeward.yaml:2"
    assert found.origins["trigger.every"] == "conf/streams/a.yaml:6"
    assert found.origins["limits.stall"] == "conf/lakeward.yaml:4"
    assert found.origins["limits.freshness"].startswith("default: ")
    assert found.origins["lineage"].startswith("default: ")
    assert found.origins["quarantine.table"] == "derived: the sink's table with _quarantine"


@pytest.mark.parametrize(
    "written",
    [
        "spark: {spark.hadoop.fs.s3a.secret.key: hunter2}",
        "sink2: 'postgresql://me:hunter2@db/x'",
        "tags: ['password=hunter2;']",
        "tags: ['jdbc:postgresql://me:hunter2@db']",
        "spark: {spark.x: AKIAABCDEFGHIJKLMNOP}",
    ],
)
def test_a_secret_is_refused_and_never_shown(stream, minimal, written):
    loaded = stream(minimal + written + "\n")
    assert any("looks like a secret" in problem.message for problem in loaded.problems)
    shown = repr(loaded.problems) + texts(loaded)
    assert "hunter2" not in shown
    assert "AKIAABCDEFGHIJKLMNOP" not in shown


def test_a_column_named_password_is_no_secret(project, minimal):
    suite = "table: nyc.flights\nowner: x\nexpectations: [{type: expect_a, kwargs: {column: password_hash}}]\n"
    loaded = project(
        {
            "conf/streams/a.yaml": minimal + "rules: {password_there: \"carrier != 'password = x'\"}\n",
            "expectations/nyc.flights.yaml": suite,
        }
    )
    assert texts(loaded) == ""


def test_streams_that_disturb_each_other(project, minimal):
    kafka = "sink: {kafka: {topic: out}}\nquarantine: {table: nyc.q_%s}\n"
    head = minimal.split("sink:")[0]
    loaded = project(
        {
            "conf/streams/a.yaml": minimal,
            "conf/streams/b.yaml": minimal.replace("days(", "months("),
            "conf/streams/c.yaml": minimal.replace("owner:", "id: a\nowner:"),
            "conf/streams/k1.yaml": head + kafka % "k1",
            "conf/streams/k2.yaml": head + kafka % "k2" + "resources: {driver: k1, cores: 4}\n",
            "conf/streams/q.yaml": minimal.replace("nyc.flights", "nyc.other") + "quarantine: {table: nyc.flights}\n",
        }
    )
    found = {(problem.file.rpartition("/")[2], problem.path, problem.severity) for problem in loaded.problems}
    assert found == {
        ("b.yaml", "sink.iceberg.partition_by", "error"),
        ("c.yaml", "id", "error"),
        ("k2.yaml", "sink.kafka.topic", "warning"),
        ("k2.yaml", "resources", "error"),
        ("q.yaml", "quarantine.table", "error"),
    }


def test_a_declared_driver_has_one_size(project, minimal):
    loaded = project(
        {
            "conf/streams/a.yaml": minimal + "resources: {driver: core, cores: 4}\n",
            "conf/lakeward.yaml": "drivers: {core: {cores: 2}}",
        }
    )
    assert "driver core is declared in conf/lakeward.yaml; set its cores there" in texts(loaded)


def test_a_stream_never_feeds_itself_and_names_its_quarantine(stream, minimal):
    loaded = stream(minimal.split("sink:")[0] + "sink: {kafka: {topic: flights}}\n")
    assert "the stream would feed itself" in texts(loaded)
    assert "quarantine: this is missing: decode can refuse a row" in texts(loaded)


def test_several_sources_need_sql(stream):
    source = "{kafka: {topics: [%s], max_offsets_per_trigger: 5}}"
    text = f"owner: x\nsources: {{f: {source % 'f'}, g: {source % 'g'}}}\nsink: {{iceberg: {{table: n.t}}}}\n"
    assert "transform: this is missing: SQL over the sources f, g" in texts(stream(text))
    assert "source g is declared, but the SQL never reads it" in texts(
        stream(text + "transform: {sql: SELECT * FROM f}\n")
    )


def test_a_policy_below_a_floor_needs_unsafe(project):
    rule = "{match: 'nyc.*', expire: {older_than: 1h}}"
    loaded = project({"conf/tables.yaml": f"policies: [{rule}]"})
    assert "below the floor of 6h" in texts(loaded)
    assert "unsafe" in texts(loaded)
    loaded = project({"conf/tables.yaml": f"unsafe: [{rule[:-1]}, why: a test}}]"})
    assert texts(loaded) == ""
    assert "why: this is missing" in texts(project({"conf/tables.yaml": f"unsafe: [{rule}]"}))


def test_a_suite_is_named_after_its_table(project, minimal):
    suite = "table: nyc.%s\nowner: x\nexpectations: [{type: expect_a}, {type: expect_a}]\n"
    loaded = project(
        {
            "conf/streams/a.yaml": minimal,
            "expectations/nyc.x.yaml": suite % "y",
            "expectations/nyc.flights.yaml": suite % "flights",
            "expectations/nyc.z.yaml": suite.replace(", {type: expect_a}", "") % "z",
        }
    )
    assert [(p.file, p.path, p.severity) for p in loaded.problems] == [
        ("expectations/nyc.flights.yaml", "expectations[1]", "error"),
        ("expectations/nyc.x.yaml", "table", "error"),
        ("expectations/nyc.x.yaml", "expectations[1]", "error"),
        ("expectations/nyc.z.yaml", "table", "warning"),
    ]
