from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.app import main

ROOT = Path(__file__).parents[3]
GOOD = """\
owner: x
source: {kafka: {topics: [t], max_offsets_per_trigger: 10}}
decode: {json: "year INT, ts TIMESTAMP"}
sink: {iceberg: {table: a.good, partition_by: ["days(ts)"]}}
"""


@pytest.fixture
def lakeward(tmp_path, capsys, monkeypatch):
    """Run a command on the project in `tmp_path`: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "500")
    (tmp_path / "conf" / "streams").mkdir(parents=True)

    def run(*arguments: str, project: Path = tmp_path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--project", str(project)])
        found = capsys.readouterr()
        return int(end.value.code or 0), found.out, found.err

    return run


def write(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "conf" / "streams" / name).write_text(text)


def test_validate_in_order(lakeward, tmp_path):
    write(tmp_path, "good.yaml", GOOD)
    columns = [
        "source.year INT: a whole number in the range of INT",
        "source.ts TIMESTAMP: yyyy-MM-ddTHH:mm:ss with a zone; without a zone: UTC",
    ]
    said = "".join(f"good: {column}\n" for column in columns)
    assert lakeward("config", "validate")[:2] == (0, f"{said}ok: 1 stream, 0 suites\n")
    code, out, _ = lakeward("config", "validate", "-o", "json")
    assert (code, json.loads(out)) == (0, {"ok": True, "problems": [], "accepts": {"good": columns}})


def test_validate_shows_declared_formats(lakeward, tmp_path):
    block = "{schema: 'ts TIMESTAMP, lines ARRAY<STRUCT<n: INT>>', timestamps: epoch_ms}"
    write(tmp_path, "good.yaml", GOOD.replace('"year INT, ts TIMESTAMP"', block))
    code, out, _ = lakeward("config", "validate")
    assert (code, out.splitlines()[0]) == (0, "good: source.ts TIMESTAMP: milliseconds since 1970")


def test_validate_shows_a_wide_stream_by_type_and_all_of_its_columns_as_json(lakeward, tmp_path):
    kinds = ("DOUBLE", "STRING", "ARRAY<STRUCT<n: INT>>")
    columns = ", ".join(f"c{n} {kinds[n % 3]}" for n in range(999))
    write(tmp_path, "wide.yaml", GOOD.replace("year INT", columns).replace("a.good", "a.wide"))
    code, out, _ = lakeward("config", "validate")
    assert (code, out.splitlines()) == (
        0,
        [
            "wide: source.c0, c3, c6 and 330 more DOUBLE: "
            "a JSON number; whole numbers exactly, fractions as the nearest value",
            "wide: source.c1, c4, c7 and 330 more STRING: any value; a number keeps its text",
            "wide: source.c2, c5, c8 and 330 more ARRAY<STRUCT<n: INT>>: its JSON, each value by its own type",
            "wide: source.ts TIMESTAMP: yyyy-MM-ddTHH:mm:ss with a zone; without a zone: UTC",
            "ok: 1 stream, 0 suites",
        ],
    )
    accepts = json.loads(lakeward("config", "validate", "-o", "json")[1])["accepts"]["wide"]
    assert len(accepts) == 1000
    assert accepts[999] == "source.ts TIMESTAMP: yyyy-MM-ddTHH:mm:ss with a zone; without a zone: UTC"


def test_validate_points_into_declared_formats(lakeward, tmp_path):
    block = "{schema: 'ts TIMESTAMP, x TINYINT', timestamps: 'HH:mm', datums: iso}"
    write(tmp_path, "bad.yaml", GOOD.replace('"year INT, ts TIMESTAMP"', block))
    code, out, _ = lakeward("config", "validate")
    assert code == 2
    assert "decode.json.timestamps: 'HH:mm' reads no year" in out
    assert "decode.json.datums: unknown key 'datums'" in out


def test_validate_with_problems(lakeward, tmp_path):
    write(tmp_path, "bad.yaml", GOOD.replace("owner:", "ovner:").replace("10}", "0}"))
    code, out, _ = lakeward("config", "validate")
    assert code == 2
    assert "conf/streams/bad.yaml:1:1  owner: this is missing: who is contacted when it fails" in out.splitlines()
    assert out.splitlines()[-1] == "3 problems"
    code, out, _ = lakeward("config", "validate", "-o", "json")
    said = json.loads(out)
    assert code == 2
    assert said["ok"] is False
    assert set(said["problems"][0]) >= {"file", "line", "column", "path", "message", "value", "valid"}
    unknown = next(problem for problem in said["problems"] if problem["path"] == "ovner")
    assert unknown["nearest"] == "owner"
    assert "sink" in unknown["valid"]


def test_show_tells_where_each_value_came_from(lakeward):
    code, out, _ = lakeward("config", "show", "flights", project=ROOT)
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert code == 0
    assert lines["owner"].startswith("data-platform   # conf/lakeward.yaml:")
    assert lines["sink.iceberg.table"].startswith("nyc.flights   # conf/streams/flights.yaml:")
    assert "# default: " in lines["sink.iceberg.commit"]
    code, out, _ = lakeward("config", "show", "flights", "-o", "json", project=ROOT)
    said = json.loads(out)
    assert said["spec"]["sink"]["iceberg"]["mode"] == "append"
    assert set(said) == {"stream", "file", "spec", "origins"}


def test_show_of_a_stream_nobody_declared(lakeward, tmp_path):
    write(tmp_path, "good.yaml", GOOD)
    code, _, err = lakeward("config", "show", "goood")
    assert code == 2
    assert "did you mean good?" in err


def test_show_of_a_stream_with_a_problem_says_the_problem(lakeward, tmp_path):
    write(tmp_path, "bad.yaml", "owner: [")
    code, _, err = lakeward("config", "show", "bad")
    assert code == 2
    assert "conf/streams/bad.yaml" in err


def test_show_of_a_stream_with_a_problem_elsewhere_says_that(lakeward, tmp_path):
    write(tmp_path, "other.yaml", GOOD.replace("10}", "0}"))
    code, _, err = lakeward("config", "show", "good")
    assert code == 2
    assert "conf/streams/other.yaml" in err


def test_show_tells_apart_a_setting_and_another_that_begins_like_it(lakeward, tmp_path):
    setting = "spark.sql.parquet.filterPushdown"
    write(tmp_path, "good.yaml", f"{GOOD}spark: {{{setting}: true, {setting}.date: false}}\n")
    code, out, _ = lakeward("config", "show", "good")
    assert code == 0
    assert f"spark.{setting} " in out
    assert f"spark.{setting}.date" in out


def test_deploy_of_a_project_with_problems_reaches_nothing(lakeward, tmp_path):
    write(tmp_path, "bad.yaml", GOOD.replace("10}", "0}"))
    code, _, err = lakeward("deploy", "--home", str(tmp_path / "no-home"))
    assert code == 2
    assert "The specs have 1 problem" in err
    assert "this must be more than 0" in err


def test_deploy_without_a_stack_says_how_to_get_one(lakeward, tmp_path):
    write(tmp_path, "good.yaml", GOOD)
    code, _, err = lakeward("deploy", "--plan", "--home", str(tmp_path / "no-home"))
    assert code == 3
    assert "lakeward stack up" in err


def test_a_table_is_named_with_or_without_the_catalog(lakeward, tmp_path):
    settings = "catalogs: {prod: {type: rest, uri: 'https://c'}}"
    (tmp_path / "conf" / "lakeward.yaml").write_text(settings)
    write(tmp_path, "good.yaml", GOOD.replace("a.good", "prod.a.good"))
    for name in ("a.good", "prod.a.good"):
        code, out, _ = lakeward("tables", "policy", name, "-o", "json")
        document = json.loads(out)
        assert (code, document["table"], document["streams"]) == (0, "a.good", ["good"]), name


def test_a_table_of_a_further_catalog_has_its_policy(lakeward, tmp_path):
    settings = (
        "default_catalog: prod\ncatalogs: {prod: {type: rest, uri: 'https://c'}, dev: {type: rest, uri: 'https://d'}}"
    )
    (tmp_path / "conf" / "lakeward.yaml").write_text(settings)
    code, out, _ = lakeward("tables", "policy", "dev.a.good", "-o", "json")
    document = json.loads(out)
    assert (code, document["table"], document["policy"]["class"]) == (0, "dev.a.good", "foreign")


def test_a_deploy_in_a_folder_without_a_project_names_it_and_no_file_to_correct(lakeward, tmp_path):
    code, _, said = lakeward("deploy", project=tmp_path / "conf")
    assert code == 2
    assert "There is no Lakeward project here [LW-1385]" in said
    assert "next: lakeward init lakehouse " in said
