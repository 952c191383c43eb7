from __future__ import annotations

import pytest
from problems import texts

from lakeward.spec.checks.secrets import hidden, hides_secret, looks_secret, masked, secrets


@pytest.mark.parametrize(
    "key",
    ["password", "spark.hadoop.fs.s3a.secret.key", "fs.s3a.access.key", "kafka.sasl.jaas.config", "apiKey",
     "auth_token", "fs.azure.account.key.x", "ssl.key.password"],
)  # fmt: skip
def test_settings_whose_name_says_secret(key):
    assert hides_secret(key)


@pytest.mark.parametrize(
    "key", ["spark.sql.shuffle.partitions", "keys", "key", "tokenizer", "format-version", "max_rows"]
)
def test_settings_whose_name_does_not(key):
    assert not hides_secret(key)


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:pw@host/db",
        "me:pw@host:9092",
        "AKIAIOSFODNN7EXAMPLE",
        "x;password=abc;",
        "-----BEGIN PRIVATE KEY-----",
        "ghp_" + "a1B2" * 9,
        "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x",
        "jdbc:x://h/d?user=a&password=hunter2",
    ],
)
def test_values_that_look_like_one(value):
    assert looks_secret(value)


@pytest.mark.parametrize(
    "value",
    ["s3a://bucket/path", "host:9092,other:9092", "a: b", "me@example.org", "mailto:ops@example.com", "", 5, None],
)  # fmt: skip
def test_values_that_do_not(value):
    assert not looks_secret(value)


def test_names_count_where_names_are_free_and_values_anywhere_but_in_sql():
    data = {
        "spark": {"spark.x.password": "abc"},
        "sink": {"iceberg": {"properties": {"api.key": "abc"}}},
        "rules": {"password": "password = 'hunter2'"},
        "transform": {"sql": "SELECT * FROM x WHERE password = 'hunter2' AND token=other"},
        "tags": ["jdbc://a:b@c"],
    }
    assert set(secrets(data)) == {
        ("spark", "spark.x.password"),
        ("sink", "iceberg", "properties", "api.key"),
        ("tags", 0),
    }


@pytest.mark.parametrize("key", ["token", "pwd", "github.token"])
def test_a_bare_token_is_one_where_names_are_free(key):
    assert set(secrets({"spark": {key: "abc"}, "kwargs": {key: "abc"}})) == {("spark", key)}


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "a1B2" * 9,
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x",
        "jdbc:sqlserver://h;password=hunter2",
        "https://me:hunter2@host/x",
    ],
)
def test_what_can_be_nothing_else_is_found_in_sql_and_rules_too(text):
    sql = f"SELECT '{text}' FROM source"
    assert set(secrets({"transform": {"sql": sql}, "rules": {"r": f"a != '{text}'"}})) == {
        ("transform", "sql"), ("rules", "r"),
    }  # fmt: skip


def test_a_pattern_of_addresses_is_none_in_sql():
    assert (
        set(secrets({"transform": {"sql": r"SELECT u RLIKE '://[^:]+:[^@]+@' OR u RLIKE '://\\w+:\\w+@\\w'"}})) == set()
    )


def test_a_key_may_be_one_too():
    assert list(secrets({"a": {"https://u:hunter22@h": 1}})) == [("a", "https://u:hunter22@h")]


def test_what_a_name_says_is_secret_is_hidden_where_names_are_free():
    assert hidden(("spark", "spark.x.password"), "abc") == {"abc"}
    assert hidden(("spark", "spark.x.password"), "spark.x.password") == set()
    assert hidden(("rules", "password"), "abc") == set()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("there is no such file: conf/u:hunter22@host/x.csv", "there is no such file: conf/***@host/x.csv"),
        ("'https://u:hunter22@h' is not known here", "'***' is not known here"),
        ("'token': the SQL reads it; password: no", "'token': the SQL reads it; password: no"),
    ],
)
def test_a_text_is_shown_without_them(text, told):
    assert masked(text) == told


@pytest.mark.parametrize(
    "change",
    [
        ("iceberg: {", "iceberg: {mode: 'https://u:hunter22@h', "),
        ("max_offsets", "isolation_level: 'password=hunter22', max_offsets"),
        ("source:\n", "reference: {r: {csv: 'u:hunter22@host/x.csv'}}\nsource:\n"),
        ("source:\n", "transform: {file: 'u:hunter22@host'}\nsource:\n"),
        ("source:\n", "transform: {file: 'https://u:hunter22@host'}\nsource:\n"),
        ("source:\n", "transform: {sql: 'SELECT * FROM `https://u:hunter22@host`'}\nsource:\n"),
        ("source:\n", "'https://u:hunter22@host': 1\nsource:\n"),
        ("source:\n", "spark: {'https://u:hunter22@host': 1}\nsource:\n"),
        ("max_offsets", "starting_offsets: {'https://u:hunter22@host': {'0': 1}}, max_offsets"),
        ("iceberg: {", "iceberg: {properties: {password: hunter22, write.wap.enabled: 'password=hunter22'}, "),
        ("source:\n", "tags: ['-----BEGIN PRIVATE KEY-----\n\n  hunter22']\nsource:\n"),
    ],
    ids=lambda change: change[1][:40],
)
def test_a_secret_is_reported_and_shown_in_no_text(stream, minimal, change):
    assert change[0] in minimal
    loaded = stream(minimal.replace(*change, 1))
    assert "looks like a secret" in texts(loaded)
    assert "hunter22" not in texts(loaded) + repr(loaded.problems)
