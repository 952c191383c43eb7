"""Catalogs of the user's lake in the settings: what is read, and what is refused."""

from __future__ import annotations

import pytest

URI = "https://catalog.example.com/api/catalog"
HIVE = "type: hive, uri: 'thrift://h:9083', warehouse: s3://lake/w"
REST = f"type: rest, uri: '{URI}'"


def lake(text: str) -> dict[str, str]:
    return {"conf/lakeward.yaml": f"catalogs: {{lake: {{{text}}}}}"}


def test_a_rest_catalog_is_read(project):
    text = f"{REST}, warehouse: sales, connection: polaris, store: s3, properties: {{header.X-Project: a}}"
    loaded = project(lake(text))
    assert loaded.problems == ()
    read = loaded.settings.lake
    assert read.iceberg() == {"type": "rest", "uri": URI, "warehouse": "sales", "header.X-Project": "a"}
    assert (read.connection, read.store) == ("polaris", "s3")


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("type: rest", "catalogs.lake", "needs uri:"),
        ("type: rest, uri: catalog:8181", "catalogs.lake.uri", "http(s)://HOST:PORT/PATH"),
        ("type: rest, uri: 'thrift://h:9083'", "catalogs.lake.uri", "Hive Metastore"),
        ("type: hive, warehouse: /w", "catalogs.lake", "needs uri:"),
        ("type: hive, uri: 'thrift://h:9083'", "catalogs.lake", "needs warehouse:"),
        ("type: hive, warehouse: /w, uri: 'http://h:9083'", "catalogs.lake.uri", "thrift://HOST:PORT"),
        ("type: hive, warehouse: /w, uri: 'thrift://h'", "catalogs.lake.uri", "with the port"),
        (f"{HIVE}, connection: kerberos", "catalogs.lake.connection", "not yet: a login"),
        (
            f"{HIVE}, properties: {{hive.kerberos-authentication: 'true'}}",
            "catalogs.lake.properties[hive.kerberos-authentication]",
            "not yet",
        ),
        ("type: glue", "catalogs.lake.type", "not yet: type glue"),
        (f"{REST}, properties: {{uri: x}}", "catalogs.lake.properties.uri", "is set by the key uri:"),
        (f"{REST}, properties: {{cache-enabled: 'true'}}", "catalogs.lake.properties.cache-enabled", "hide the"),
        (f"{REST}, properties: {{scope: a}}", "catalogs.lake.properties.scope", "belongs to the login"),
        (f"{REST}, properties: {{rest.auth.type: basic}}", "catalogs.lake.properties[rest.auth.type]", "the login"),
        (f"{REST}, properties: {{rest.signing-name: a}}", "catalogs.lake.properties[rest.signing-name]", "SigV4"),
        (f"{REST}, colour: red", "catalogs.lake.colour", "unknown key"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(project, text, path, words):
    [problem] = project(lake(text)).problems
    assert problem.path == path
    assert words in problem.message


@pytest.mark.parametrize("key", ["token", "credential", "rest.auth.basic.password", "header.X-Api-Key"])
def test_a_secret_is_refused_and_not_repeated(project, key):
    problems = project(lake(f"{REST}, properties: {{{key}: s3cret}}")).problems
    assert problems
    assert "s3cret" not in str(problems)


def test_a_login_in_an_address_is_refused_and_not_repeated(project):
    problems = project(lake("type: rest, uri: 'https://me:s3cret@h'")).problems
    assert problems
    assert "s3cret" not in str(problems)


@pytest.mark.parametrize(
    ("host", "warned"), [("catalog.example.com", True), ("127.0.0.1:8181", False), ("localhost", False)]
)
def test_a_login_that_is_sent_unencrypted_is_warned_of(project, host, warned):
    problems = project(lake(f"type: rest, uri: 'http://{host}', connection: c")).problems
    assert [problem.severity for problem in problems] == ["warning"] * warned


def test_two_catalogs_are_not_one(project):
    [problem] = project({"conf/lakeward.yaml": f"catalog: {{connection: s3}}\ncatalogs: {{lake: {{{REST}}}}}"}).problems
    assert "keep one of the two" in problem.message


def test_a_hive_catalog_is_read(project):
    loaded = project(lake(f"{HIVE}, store: s3"))
    assert loaded.problems == ()
    assert loaded.settings.lake.iceberg() == {"type": "hive", "uri": "thrift://h:9083", "warehouse": "s3://lake/w"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("nyc.flights_2", ""),
        ("eu.nyc.flights", "namespaces of one level"),
        ("nyc.Flights", "letters a-z"),
        ("nyc.`v1.2`", "letters a-z"),
        (f"nyc.{'a' * 129}", "up to 128"),
    ],
)
def test_what_a_metastore_cannot_name_is_refused_at_the_table(project, table, words):
    text = f"""
id: flights
sources: {{f: {{files: {{path: /data, format: json, schema: 'a string'}}}}}}
sink: {{iceberg: {{table: "{table}"}}}}
"""
    found = project({**lake(HIVE), "conf/streams/flights.yaml": text}).problems
    named = [problem for problem in found if problem.path == "sink.iceberg.table"]
    assert [problem.line for problem in named] == ([4] if words else []), found
    assert all(words in problem.message for problem in named)
    assert not [each for each in project({**lake(REST), "conf/streams/flights.yaml": text}).problems if each in named]


def test_another_name_is_not_yet_there(project):
    [problem] = project({"conf/lakeward.yaml": f"catalogs: {{sales: {{{REST}}}}}"}).problems
    assert problem.message.startswith("not yet: a catalog of another name than lake")
