from __future__ import annotations

import pytest

from lakeward.spec.secrets import hides_secret, looks_secret, secrets


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


@pytest.mark.parametrize("value", ["s3a://bucket/path", "host:9092,other:9092", "a: b", "me@example.org", "", 5, None])
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
    ],
)
def test_what_can_be_nothing_else_is_found_in_sql_and_rules_too(text):
    sql = f"SELECT '{text}' FROM source"
    assert set(secrets({"transform": {"sql": sql}, "rules": {"r": f"a != '{text}'"}})) == {
        ("transform", "sql"), ("rules", "r"),
    }  # fmt: skip
