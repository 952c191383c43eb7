"""A file with a mistake is read to its end: one pass finds all that is wrong, and nothing that only follows."""

from __future__ import annotations

import pytest
from problems import texts

from lakeward.spec.model.tables import Tables


def test_a_bad_value_hides_no_check_of_the_rest(stream, minimal):
    text = (
        minimal.replace("owner:", "ovner:").replace("10s", "10").replace("20000", "0")
        + "limts: {}\nrules: {r: 'yeer > 1'}\nwatermark: {column: carrier, delay: 1h}\n"
        + "spark: {spark.wap.id: x}\nreference: {q: {csv: no.csv}}\n"
    )
    assert {problem.path for problem in stream(text).problems} == {
        "ovner", "owner", "source.kafka.max_offsets_per_trigger", "trigger.every", "limts", "rules.r",
        "watermark.column", "spark[spark.wap.id]", "reference.q.csv", "reference.q",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("decode:", "dekode:"), "dekode"),
        (("table: nyc.flights", "tabel: nyc.flights"), "sink.iceberg.tabel"),
        (("sink:", "sinc:"), "sinc"),
        (("kafka:", "kafak:"), "source.kafak"),
        (("nyc.flights, partition_by", "flights, partition_by"), "sink.iceberg.table"),
        (('["days(time_hour)"]', "[bucket(x), days(time_hour)]"), "sink.iceberg.partition_by[0]"),
        (("source:\n", "transfrom: {sql: SELECT 1}\nsource:\n"), "transfrom"),
    ],
)
def test_what_was_reported_is_not_reported_again_by_what_follows_from_it(stream, minimal, change, path):
    assert change[0] in minimal
    problems = stream(minimal.replace(*change, 1)).problems
    said = [problem.path for problem in problems if "this is missing" not in problem.message]
    assert [each for each in said if not each.endswith(("source", "sink"))] == [path]


def test_mixed_forms_hide_nothing_either(stream, minimal):
    text = minimal.replace("\ntrigger:", "\nsources: {}\nspark: {spark.wap.id: x}\ntrigger:")
    assert [problem.path for problem in stream(text).problems] == ["sources", "spark[spark.wap.id]"]


def test_settings_of_the_defaults_are_reported_without_a_stream(project):
    assert "defaults.spark[spark.wap.id]: spark.wap.id cannot be set" in texts(
        project({"conf/lakeward.yaml": "defaults: {spark: {spark.wap.id: x}}"})
    )


@pytest.mark.parametrize(
    ("file", "text", "paths"),
    [
        (
            "conf/tables.yaml",
            "defaults: {expire: {min_snapshots: x, older_than: 1m}}\n"
            "policies: [{observe: 1s}, {match: 'n.*', engine: none, compact: {cooldown: x, min_fragments: 1}}]\n",
            {
                "defaults.expire.min_snapshots", "defaults.expire.older_than",
                "policies[0].match", "policies[0].observe",
                "policies[1].engine", "policies[1].compact.cooldown", "policies[1].compact.min_fragments",
            },
        ),
        (
            "conf/tables.yaml",
            "defaults: {compact: {target_size: 20GB, cooldown: x}}\n",
            {"defaults.compact.target_size", "defaults.compact.cooldown"},
        ),
        (
            "conf/tables.yaml",
            "defaults: {compact: {target_size: 20GB, max_group_size: 100GBB}, observe: 1s}\n",
            {"defaults.compact.max_group_size", "defaults.observe"},  # how large a group may be is not known
        ),
        (
            "conf/lakeward.yaml",
            "drivers:\n  d: {cores: x, backend: mesos, spark: {spark.master: local}}\nreconcile: {every: 5m}\n"
            "defaults: {trigger: 5, spark: {spark.wap.id: x}}\n",
            {
                "drivers.d.cores", "drivers.d.backend", "drivers.d.spark[spark.master]", "reconcile",
                "defaults.trigger", "defaults.spark[spark.wap.id]",
            },
        ),
        (
            "expectations/n.t.yaml",
            "table: n.other\nexpectations:\n  - {type: expect_a, severity: x, on_fail: y}\n"
            "  - {type: expect_b}\n  - {type: expect_b}\n",
            {"owner", "table", "expectations[0].severity", "expectations[0].on_fail", "expectations[2]"},
        ),
        ("expectations/n.t.yaml", "table: t\nowner: x\nexpectations: []\n", {"table", "expectations"}),
    ],
)  # fmt: skip
def test_so_it_is_with_the_other_files(project, file, text, paths):
    loaded = project({file: text})
    assert {problem.path for problem in loaded.problems} == paths
    assert loaded.tables == Tables(), "nothing goes by half a file"
    # A launch reads this file: a driver's entry is not forgotten for a mistake, or it would run with other settings.
    assert set(loaded.settings.drivers) == ({"d"} if file == "conf/lakeward.yaml" else set())
    assert loaded.suites == {}


def test_an_sql_file_may_begin_with_a_byte_order_mark(stream, minimal):
    text = "\ufeffSELECT * FROM source"
    assert texts(stream(minimal + "transform: {file: a.sql}\n", **{"conf/streams/a.sql": text})) == ""


def test_an_sql_file_holds_text(stream, minimal):
    loaded = stream(minimal + "transform: {file: a.sql}\n", **{"conf/streams/a.sql": "SELECT *\n, '\x00' FROM source"})
    assert "conf/streams/a.sql:2:4  this is not text: it contains a NUL character" in texts(loaded)


def test_an_empty_csv_has_no_columns(stream, minimal):
    loaded = stream(minimal + "reference: {r: {csv: r.csv}}\n", **{"r.csv": ""})
    assert "r.csv is empty; a CSV must have a header" in texts(loaded)
