from __future__ import annotations

import pickle

import pytest
from pydantic import TypeAdapter, ValidationError

from lakeward.spec.model.table_layout import PartitionField
from lakeward.spec.model.table_names import TableName
from lakeward.spec.model.types import Brokers, Cron, Duration, Memory, Name, Size, Span, StreamId, Tag


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("5m", 300), ("2h", 7200), ("7d", 604800), ("1.5h", 5400)]
)
def test_a_duration_knows_its_seconds_and_keeps_its_text(text, seconds):
    duration = Duration(text)
    assert duration.seconds == seconds
    assert duration.timedelta.total_seconds() == seconds
    assert duration.spark == f"{int(seconds * 1000)} milliseconds"
    assert f"{duration}" == text


@pytest.mark.parametrize("text", ["10", "10 s", "-5s", "s", "", "1w", "10S", "١s ", "5m\n", "١s"])
def test_what_is_no_duration_is_refused_in_words(text):
    with pytest.raises(ValueError, match="a number and a unit: 10s, 5m, 2h or 7d"):
        Duration(text)


def test_measures_compare_by_length_not_by_letter():
    assert Duration("60s") == Duration("1m")
    assert hash(Duration("60s")) == hash(Duration("1m"))
    assert Duration("9s") < Duration("10s") <= Duration("10000ms") < Duration("1h")
    assert Duration("2h") > Duration("90m") >= Duration("1.5h")
    assert Duration("1s") != Duration("2s")
    assert Size("1GB") > Size("999MB") != Size("1KB")
    assert Size("128MB").bytes == 134_217_728


@pytest.mark.parametrize("text", ["0s", "0.4ms"])
def test_a_span_is_more_than_nothing(text):
    with pytest.raises(ValidationError, match="more than 0: 1ms at least"):
        TypeAdapter(Span).validate_python(text)
    assert TypeAdapter(Span).validate_python("1ms").spark == "1 milliseconds"


@pytest.mark.parametrize("number", ["99999999999", "36500.1", "9" * 400])
def test_what_no_clock_can_count_is_refused(number):
    assert Duration("36500d").timedelta.days == 36_500
    with pytest.raises(ValueError, match="at most 36500d"):
        Duration(number + "d")


@pytest.mark.parametrize("number", ["1048577", "9" * 400])
def test_a_size_has_an_end(number):
    assert Size("1048576TB").bytes == 1 << 60
    with pytest.raises(ValueError, match="1 EB"):
        Size(number + "TB")


@pytest.mark.parametrize("text", ["", "x" * 101])
def test_a_tag_is_one_that_airflow_keeps(text):
    assert Tag("x" * 100)
    with pytest.raises(ValueError, match="1 to 100 characters"):
        Tag(text)


@pytest.mark.parametrize("text", ["512k", "1G", "0g", "1gb", "1.5g"])
def test_memory_is_in_sparks_own_form(text):
    assert Memory("512m").bytes == 536_870_912
    with pytest.raises(ValueError, match="512m, 2g"):
        Memory(text)


@pytest.mark.parametrize("text", ["511m", "1025g", "999999999g"])
def test_memory_is_what_a_driver_can_start_with(text):
    assert Memory("1024g").bytes == 1 << 40
    with pytest.raises(ValueError, match="512m at least and 1024g at most"):
        Memory(text)


@pytest.mark.parametrize("text", ["flights", "a.", ".b", "a.b`", "a.b\n", "a..b", "a.b/c"])
def test_a_table_is_in_a_namespace(text):
    assert (TableName("nyc.flights").namespace, TableName("nyc.flights").name) == ("nyc", "flights")
    with pytest.raises(ValueError, match=r"namespace\.table"):
        TableName(text)


@pytest.mark.parametrize("text", ["Flights", "1a", "a.b", "a/b", "", "a" * 64])
def test_a_stream_id_is_safe_in_paths_properties_and_dag_ids(text):
    assert StreamId("departures_hourly-2")
    with pytest.raises(ValueError, match="lower case"):
        StreamId(text)


def test_a_schedule_is_checked_when_it_is_read():
    schedule = TypeAdapter(Cron)
    assert schedule.validate_python("*/5 0 * * 1") == "*/5 0 * * 1"
    for wrong in ("0 * * *", "61 * * * *", "@hourly", "0 0 * * * *"):
        with pytest.raises(ValidationError, match="five cron fields"):
            schedule.validate_python(wrong)


def test_brokers_carry_no_user_and_no_password():
    assert Brokers("a:9092,b:9092")
    for wrong in ("a", "user:pw@a:9092", "SASL://a:9092", "a:9092, b:9092"):
        with pytest.raises(ValueError, match="host:port"):
            Brokers(wrong)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("origin", "`origin`"),
        ("days(time_hour)", "days(`time_hour`)"),
        ("month(t)", "months(`t`)"),
        ("bucket(16, id)", "bucket(16, `id`)"),
        ("Truncate( 4 , c )", "truncate(4, `c`)"),
    ],
)
def test_a_partition_field_quotes_its_column(text, sql):
    field = PartitionField(text)
    assert field.sql == sql
    assert pickle.loads(pickle.dumps(field)) == field
    assert pickle.loads(pickle.dumps(field)).column == field.column


@pytest.mark.parametrize(
    "text", ["dayz(x)", "days(x", "days(4, x)", "bucket(x)", "a b", "days(x); DROP", "", "bucket(a, x)"]
)
def test_what_is_no_partition_field_is_refused(text):
    with pytest.raises(ValueError, match="partition field"):
        PartitionField(text)


@pytest.mark.parametrize("text", ["bucket(0, x)", "bucket(2147483648, x)", f"truncate({'9' * 5000}, x)"])
def test_buckets_and_widths_are_what_iceberg_can_count(text):
    assert PartitionField("bucket(2147483647, x)").number == 2_147_483_647
    with pytest.raises(ValueError, match="is 1 to 2147483647"):
        PartitionField(text)
    with pytest.raises(ValueError, match="partition field"):
        PartitionField("bucket(٣, x)")


def test_names_and_texts_survive_json_and_pickle():
    name = Name("dep_delay_sane")
    assert pickle.loads(pickle.dumps(name)) == name
    assert TypeAdapter(Name).dump_json(name) == b'"dep_delay_sane"'
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(5)
