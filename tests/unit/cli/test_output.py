from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lakeward import __version__
from lakeward.cli import app, context
from lakeward.cli.output import ConsoleOutput, JsonOutput
from lakeward.platform.errors import Internal, expect
from lakeward.platform.text import rfc3339


def test_json_is_alone_on_stdout(capsys):
    output = JsonOutput()
    output.note("working")
    output.show({"at": datetime(2026, 11, 21, 3, 10, tzinfo=UTC), "rows": [{"a": 1}]}, rows="rows")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"at": "2026-11-21T03:10:00.000Z", "rows": [{"a": 1}]}
    assert "working" in captured.err


def test_a_number_json_has_no_word_for_is_text(capsys):
    JsonOutput().show(
        {"values": [float("inf"), float("-inf"), float("nan"), 1.5], "at": datetime(2026, 1, 1, tzinfo=UTC)}
    )

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found == {"values": ["Infinity", "-Infinity", "NaN", 1.5], "at": "2026-01-01T00:00:00.000Z"}


def test_a_table_has_a_row_a_record_and_says_when_there_is_none(capsys):
    ConsoleOutput().show({"streams": [{"id": "flights", "ok": True, "x": None}]}, rows="streams")
    ConsoleOutput().show({"streams": []}, rows="streams")
    out = capsys.readouterr().out
    assert "flights" in out
    assert "yes" in out
    assert "no streams" in out


def test_people_read_sizes_and_scripts_bytes(capsys):
    data = {"parts": [{"name": "kafka", "pss_bytes": 286_151_680}, {"name": "connect", "pss_bytes": None}]}
    ConsoleOutput().show(data, rows="parts")
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "pss"]
    assert [row.split() for row in rows] == [["kafka", "273", "MB"], ["connect", "-"]]
    JsonOutput().show(data, rows="parts")
    assert json.loads(capsys.readouterr().out) == data


def test_markup_in_data_is_shown_not_interpreted(capsys):
    ConsoleOutput().show({"why": "[red]not markup[/red]"})
    assert "[red]not markup[/red]" in capsys.readouterr().out


def test_times_are_rfc3339_in_utc():
    assert rfc3339(datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)) == "2026-01-02T03:04:05.678Z"


@pytest.mark.parametrize("arguments", [["version", "-o", "json"], ["-o", "json", "version"]])
def test_common_options_stand_before_or_after_the_verb(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        app.main(arguments)
    assert ended.value.code == 0
    assert "version" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("attached", ["-ojson", "-o=json"])
def test_the_form_may_be_attached(attached):
    assert context.take_common_options(["version", attached]) == ["version"]
    assert isinstance(context.state().output, JsonOutput)


@pytest.mark.parametrize("text", ["-on call", "-only today", "-ojson, as before"])
def test_text_that_begins_like_the_option_is_left_to_the_command(text):
    words = ["streams", "hold", "x", "--for", "1h", "--comment", text]
    assert context.take_common_options([*words, "-o", "table"]) == words
    assert isinstance(context.state().output, ConsoleOutput)


def test_a_foreseen_error_is_three_lines_and_its_exit_code(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LAKEWARD_REGISTRY_URL_FILE", raising=False)
    context.take_common_options(["--home", str(tmp_path)])
    with pytest.raises(Exception, match="next: lakeward stack up"):
        context.state().runtime  # noqa: B018 - the property raises


def test_the_version_is_asked_for_by_an_option(capsys):
    with pytest.raises(SystemExit) as ended:
        app.main(["--version", "-o", "json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__}


def test_a_bug_shows_its_stack_trace(monkeypatch):
    monkeypatch.setattr(app, "command_tree", lambda: lambda rest: expect(None, "the answer"))
    with pytest.raises(Internal, match="the answer is missing"):
        app.main(["version"])


def test_a_wrong_value_of_output_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        app.main(["version", "-o", "xml"])
    assert ended.value.code == 2
    assert "invalid choice: 'xml'" in capsys.readouterr().err
