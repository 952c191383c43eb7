"""A file with a mistake is read to its end: one pass finds all that is wrong, and nothing that only follows."""

from __future__ import annotations

import pytest
from problems import texts


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
def test_what_was_told_is_not_told_again_by_what_follows_from_it(stream, minimal, change, path):
    assert change[0] in minimal
    problems = stream(minimal.replace(*change, 1)).problems
    said = [problem.path for problem in problems if "this is missing" not in problem.message]
    assert [each for each in said if not each.endswith(("source", "sink"))] == [path]


def test_mixed_forms_hide_nothing_either(stream, minimal):
    text = minimal.replace("\ntrigger:", "\nsources: {}\nspark: {spark.wap.id: x}\ntrigger:")
    assert [problem.path for problem in stream(text).problems] == ["sources", "spark[spark.wap.id]"]


def test_settings_of_the_defaults_are_told_without_a_stream(project):
    assert "defaults.spark[spark.wap.id]: spark.wap.id is not yours" in texts(
        project({"conf/lakeward.yaml": "defaults: {spark: {spark.wap.id: x}}"})
    )


def test_an_sql_file_may_begin_with_a_byte_order_mark(stream, minimal):
    text = "\ufeffSELECT * FROM source"
    assert texts(stream(minimal + "transform: {file: a.sql}\n", **{"conf/streams/a.sql": text})) == ""


def test_an_sql_file_holds_text(stream, minimal):
    loaded = stream(minimal + "transform: {file: a.sql}\n", **{"conf/streams/a.sql": "SELECT *\n, '\x00' FROM source"})
    assert "conf/streams/a.sql:2:4  this is no text: there is a NUL character here" in texts(loaded)


def test_an_empty_csv_has_no_columns(stream, minimal):
    loaded = stream(minimal + "reference: {r: {csv: r.csv}}\n", **{"r.csv": ""})
    assert "r.csv is empty; a CSV begins with the names of its columns" in texts(loaded)
