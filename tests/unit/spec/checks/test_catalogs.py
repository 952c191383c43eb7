"""Catalogs of the user's lake in the settings: what is read, and what is refused."""

from __future__ import annotations

import pytest

from lakeward.platform.runtime import Lake
from lakeward.spec.model.tables import Tables, resolve_policy
from lakeward.spec.sql.catalogs import further_of, lake_of, prefix_in

URI = "https://catalog.example.com/api/catalog"
HIVE = "type: hive, uri: 'thrift://h:9083', warehouse: s3://lake/w"
REST = f"type: rest, uri: '{URI}'"
GLUE = "type: glue, warehouse: s3://lake/w, region: eu-central-1"
SIGNED = f"{REST}, signing_name: s3tables, region: eu-central-1"


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
        ("type: jdbc", "catalogs.lake.type", "not yet: type jdbc"),
        ("type: glue, region: eu-central-1", "catalogs.lake", "needs warehouse:"),
        ("type: glue, warehouse: s3://lake/w", "catalogs.lake", "needs region:"),
        ("type: glue, warehouse: /w, region: eu-central-1", "catalogs.lake.warehouse", "are on S3"),
        (f"{GLUE}, store: s3", "catalogs.lake.store", "leave store: out"),
        (f"{GLUE}, uri: 'thrift://h:1'", "catalogs.lake.uri", "AWS's needs none"),
        (f"{GLUE}, uri: 'https://glue.eu-central-1.amazonaws.com/iceberg'", "catalogs.lake.uri", "type: rest with"),
        (f"{GLUE}, signing_name: glue", "catalogs.lake.signing_name", "in a REST catalog only"),
        (f"{GLUE}, properties: {{glue.endpoint: x}}", "catalogs.lake.properties[glue.endpoint]", "key uri:"),
        (f"{GLUE}, properties: {{client.factory: x}}", "catalogs.lake.properties[client.factory]", "key connection:"),
        (f"{SIGNED}, store: s3", "catalogs.lake.store", "leave store: out"),
        (f"{REST}, signing_name: glue", "catalogs.lake", "needs region:"),
        (f"{REST}, signing_name: s3, region: eu-central-1", "catalogs.lake.signing_name", "not known"),
        (f"{HIVE}, region: eu-central-1", "catalogs.lake.region", "belongs to type: glue"),
        (f"{REST}, properties: {{uri: x}}", "catalogs.lake.properties.uri", "is set by the key uri:"),
        (f"{REST}, properties: {{cache-enabled: 'true'}}", "catalogs.lake.properties.cache-enabled", "hide the"),
        (f"{REST}, properties: {{scope: a}}", "catalogs.lake.properties.scope", "belongs to the login"),
        (f"{REST}, properties: {{rest.auth.type: basic}}", "catalogs.lake.properties[rest.auth.type]", "the login"),
        (f"{REST}, properties: {{rest.signing-name: a}}", "catalogs.lake.properties[rest.signing-name]", "set by"),
        (f"{REST}, colour: red", "catalogs.lake.colour", "unknown key"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(project, text, path, words):
    [problem] = project(lake(text)).problems
    assert problem.path == path
    assert words in problem.message


SECRETS = ["token", "credential", "rest.auth.basic.password", "header.X-Api-Key", "client.secret-access-key"]


@pytest.mark.parametrize("key", [*SECRETS, "rest.session-token", "glue.access-key-id"])
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


def test_a_glue_catalog_is_read(project):
    loaded = project(lake(f"{GLUE}, connection: aws, properties: {{glue.id: '123456789012'}}"))
    assert loaded.problems == ()
    read = loaded.settings.lake
    where = {"warehouse": "s3://lake/w", "client.region": "eu-central-1"}
    assert read.iceberg() == {"type": "glue", **where, "glue.id": "123456789012"}
    assert (read.login, read.keys) == (None, "aws"), "one connection for requests and files"


def test_a_catalog_of_signed_requests_is_read(project):
    bucket = "arn:aws:s3tables:eu-central-1:123456789012:bucket/b"
    loaded = project(lake(f"{SIGNED}, warehouse: '{bucket}', connection: aws"))
    assert loaded.problems == ()
    read = loaded.settings.lake
    assert {key: value for key, value in read.iceberg().items() if key.startswith(("rest.", "client."))} == {
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": "eu-central-1",
        "client.region": "eu-central-1",
    }
    assert (read.login, read.keys) == (None, "aws")


def test_a_region_of_the_files_alone_is_a_property(project):
    assert project(lake(f"{REST}, properties: {{client.region: eu-central-1}}")).problems == ()
    assert project(lake(f"{REST}, region: eu-central-1")).settings.lake.iceberg()["client.region"] == "eu-central-1"


def test_an_endpoint_of_aws_without_a_signature_is_warned_of(project):
    [problem] = project(lake("type: rest, uri: 'https://glue.eu-central-1.amazonaws.com/iceberg'")).problems
    assert (problem.path, problem.severity) == ("catalogs.lake.uri", "warning")
    assert "signing_name: glue" in problem.message


@pytest.mark.parametrize(("table", "words"), [("nyc.Flights", "up to 252"), ("eu.nyc.flights", "of one level")])
def test_what_glue_cannot_name_is_refused_at_the_table(project, table, words):
    text = f"""
id: flights
sources: {{f: {{files: {{path: /data, format: json, schema: 'a string'}}}}}}
sink: {{iceberg: {{table: "{table}"}}}}
"""
    found = project({**lake(GLUE), "conf/streams/flights.yaml": text}).problems
    [named] = [problem for problem in found if problem.path == "sink.iceberg.table"]
    assert words in named.message
    assert "AWS Glue" in named.message


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


STREAM = """
owner: ann
sources:
  t: {{iceberg: {{table: {0}.sales.orders, max_files_per_trigger: 1}}}}
reference: {{names: {{iceberg: {0}.sales.names}}}}
transform: {{sql: "SELECT t.* FROM t JOIN names USING (id)"}}
trigger: {{every: 10s}}
sink: {{iceberg: {{table: {0}.sales.copy}}}}
quarantine: {{table: {0}.sales.bad}}
"""
SUITE = """
table: {0}.sales.copy
owner: ann
expectations:
  - {{type: expect_keys_to_be_in_reference, kwargs: {{columns: [id], reference: {0}.sales.names}}}}
"""


def files(catalog: str) -> dict[str, str]:
    return {
        "conf/lakeward.yaml": f"catalogs: {{prod: {{{REST}}}}}",
        "conf/streams/copy.yaml": STREAM.format(catalog),
        "conf/tables.yaml": f"policies: [{{match: {catalog}.sales.c*, expire: {{older_than: 9d}}}}]",
        "expectations/sales.copy.yaml": SUITE.format(catalog),
    }


def test_the_catalog_has_any_name_and_tables_may_begin_with_it(project):
    loaded = project(files("prod"))
    assert [each for each in loaded.problems if each.severity == "error"] == []
    assert loaded.settings.lake_name == "prod"
    spec = loaded.streams["copy"].spec
    assert [str(each) for each in spec.tables] == ["sales.copy", "sales.bad"]
    assert (spec.sources["t"].iceberg.table, spec.reference["names"].iceberg) == ("sales.orders", "sales.names")
    assert [str(each.match) for each in loaded.tables.policies] == ["sales.c*"]
    suite = loaded.suites["sales.copy"]
    assert suite.expectations[0].kwargs["reference"] == "sales.names", "one check has one id, however it is written"


def test_another_first_part_is_a_namespace(project):
    spec = project(files("test")).streams["copy"].spec
    assert [str(each) for each in spec.tables] == ["test.sales.copy", "test.sales.bad"]


def test_a_namespace_of_the_default_name_stays_one(project):
    """Projects of earlier versions may have it."""
    found = project({**files("lake"), **lake(REST)})
    assert [str(each) for each in found.streams["copy"].spec.tables] == ["lake.sales.copy", "lake.sales.bad"]
    assert found.settings.lake_name == "lake"


def test_all_tables_of_the_catalog_are_not_those_of_a_namespace(project):
    text = "policies: [{match: prod.*, expire: {older_than: 9d}}]"
    [problem] = project({"conf/lakeward.yaml": f"catalogs: {{prod: {{{REST}}}}}", "conf/tables.yaml": text}).problems
    assert (problem.file, problem.line) == ("conf/tables.yaml", 1)
    assert "its tables are *.*" in problem.message


@pytest.mark.parametrize("name", ["spark_catalog", "system", "global_temp", "session", "SYSTEM", "delta", "a-b"])
def test_a_name_that_spark_uses_is_refused(project, name):
    [problem] = project({"conf/lakeward.yaml": f"catalogs:\n  {name}: {{{REST}}}"}).problems
    assert (problem.file, problem.line) == ("conf/lakeward.yaml", 2)
    assert "cannot name a catalog" in problem.message or "a name is letters" in problem.message


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("catalogs: {a: {%s}, b: {%s}}", "default_catalog", "one is the default: default_catalog: a"),
        ("default_catalog: c\ncatalogs: {a: {%s}}", "default_catalog", "no catalog of catalogs: has this name"),
        ("default_catalog: a", "default_catalog", "there is no catalogs:"),
        ("default_catalog: b\ncatalogs: {a: {%s, store: x}, b: {%s}}", "catalogs.a.store", "not yet: keys of a second"),
        (
            f"default_catalog: b\ncatalogs: {{a: {{{GLUE}, connection: x}}, b: {{%s}}}}",
            "catalogs.a.connection",
            "not yet: keys of a second",
        ),
    ],
)
def test_one_catalog_is_the_default(project, text, path, words):
    problems = project({"conf/lakeward.yaml": text.replace("%s", REST)}).problems
    assert [each.path for each in problems] == [path]
    assert words in problems[0].message


TWO = f"default_catalog: prod\ncatalogs: {{prod: {{{REST}}}, staging: {{{REST}}}}}"


def test_several_catalogs_are_read_and_one_is_the_default(project):
    loaded = project({**files("prod"), "conf/lakeward.yaml": TWO})
    assert [each for each in loaded.problems if each.severity == "error"] == []
    assert (loaded.settings.lake_name, list(loaded.settings.others)) == ("prod", ["staging"])
    assert [str(each) for each in loaded.streams["copy"].spec.tables] == ["sales.copy", "sales.bad"]


def further(settings: str) -> dict[str, str]:
    """The files with all tables in `staging`; a suite's file has the name of its table."""
    made = files("staging") | {"conf/lakeward.yaml": settings}
    return made | {"expectations/staging.sales.copy.yaml": made.pop("expectations/sales.copy.yaml")}


def test_tables_of_a_further_catalog_keep_its_name(project):
    loaded = project(further(TWO))
    assert [each for each in loaded.problems if each.severity == "error"] == []
    spec = loaded.streams["copy"].spec
    assert [str(each) for each in spec.tables] == ["staging.sales.copy", "staging.sales.bad"]
    names = (spec.sources["t"].iceberg.table, spec.reference["names"].iceberg)
    assert names == ("staging.sales.orders", "staging.sales.names")
    suite = loaded.suites["staging.sales.copy"]
    assert suite.expectations[0].kwargs["reference"] == "staging.sales.names"


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("staging.sales.orders", "staging"),
        ("staging.eu.sales.orders", "staging"),
        ("staging.orders", None),  # a namespace of the default catalog
        ("prod.sales.orders", None),
        ("`stag.ing`.sales.orders", None),
        ("Staging.sales.orders", None),  # Spark tells names of catalogs apart by case
    ],
)
def test_the_first_of_three_parts_is_the_catalog(name, further):
    staging = Lake(name="staging", warehouse="w", properties={"type": "rest", "uri": "https://s"})
    lake = Lake(name="prod", warehouse="/w", others=(staging,))
    assert further_of(lake, name) == further
    assert lake_of(lake, name) is (lake if further is None else staging)
    assert prefix_in(lake, name) == ("prod" if further is None else "")


def test_a_glob_covers_a_further_catalog_only_by_its_name():
    tables = Tables.model_validate({"policies": [{"match": "*.*", "maintain": True}]})
    named = Tables.model_validate({"policies": [{"match": "staging.*", "maintain": True}]})
    table = "staging.sales.orders"
    assert resolve_policy(tables, table, "foreign", "staging").policy.maintain is False
    assert resolve_policy(named, table, "foreign", "staging").policy.maintain is True
    assert resolve_policy(tables, "sales.orders", "foreign").policy.maintain is True


def test_the_embedded_catalog_is_the_default_beside_others(project):
    text = f"default_catalog: lake\ncatalogs: {{staging: {{{REST}}}}}"
    loaded = project(further(text))
    assert [each for each in loaded.problems if each.severity == "error"] == []
    settings = loaded.settings
    assert (settings.lake, settings.lake_name, list(settings.others)) == (None, "lake", ["staging"])


def test_names_of_a_further_hive_metastore_are_checked_without_the_catalog(project):
    hive = "type: hive, uri: 'thrift://h:9083', warehouse: /w"
    text = f"default_catalog: prod\ncatalogs: {{prod: {{{REST}}}, staging: {{{hive}}}}}"
    assert [each for each in project(further(text)).problems if each.severity == "error"] == []
    nested = further(text) | {"conf/streams/copy.yaml": STREAM.format("staging.eu")}
    [bad] = [each for each in project(nested).problems if each.path == "sink.iceberg.table"]
    assert "write namespace.table instead of eu.sales.copy" in bad.message
