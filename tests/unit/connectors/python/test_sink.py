from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakeward.connectors.python import connections, sink
from lakeward.platform import private
from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Lake, Runtime
from lakeward.spec.model.sinks import Sink


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    return Runtime(
        registry_url_file=tmp_path / "url", lake=Lake(warehouse="/w"), checkpoints="/c", drivers=tmp_path,
        jars=tmp_path, connections=tmp_path / "secrets",
    )  # fmt: skip


def load(runtime: Runtime, name: str, **more: Any) -> Any:
    return sink.load("alerts", Sink.model_validate({"python": name, **more}), runtime).function


def test_a_function_is_the_one_it_was_deployed_with_or_an_installed_one(runtime: Runtime) -> None:
    assert load(runtime, "json:dumps")({"a": 1}) == '{"a": 1}'
    assert load(runtime, "json:dumps", code={"json.py": "def dumps(x): return 'mine'\n"})(1) == "mine"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nowhere.hooks:send", None, "No module named 'nowhere'"),
        ("json:nothing", None, "module json has no function nothing"),
        ("json:__doc__", None, "json:__doc__ is not callable"),
        ("breaks_at_import:send", None, "ZeroDivisionError: division by zero"),
        ("mine:send", "1 / 0\n", "ZeroDivisionError: division by zero\n  python/mine.py:1"),
        ("mine:send", "sent = 1\n", "module mine has no function send"),
    ],
)
def test_what_is_no_function_is_said_before_anything_runs(
    runtime: Runtime, name: str, code: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_at_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError) as refused:
        load(runtime, name, **({} if code is None else {"code": {"mine.py": code}}))
    assert words in refused.value.why


def put(runtime: Runtime, text: str, mode: int = 0o600) -> None:
    assert runtime.connections is not None
    file = private.folder(runtime.connections / "python") / "hook.json"
    private.write(file, text).chmod(mode)


def test_a_connection_is_read_again_and_shows_no_secret(runtime: Runtime) -> None:
    put(runtime, json.dumps({"host": "h", "password": "pa55-word", "schema": "https", "extra": {"token": "t0ken"}}))
    found = sink.load("a", Sink.model_validate({"python": "json:dumps", "connection": "hook"}), runtime)
    before = found.connection()
    put(runtime, json.dumps({"host": "h", "password": "other"}))
    after = found.connection()
    assert before is not None
    assert after is not None
    assert (before.password, before.schema_, before.extra["token"], after.password) == (
        "pa55-word", "https", "t0ken", "other",
    )  # fmt: skip
    assert "pa55-word" not in repr(before) + str(before)
    assert "t0ken" not in repr(before)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (json.dumps({"host": "h", "passwd": "pa55-word"}), 0o600, "passwd: Extra inputs are not permitted"),
        (json.dumps({"host": ["pa55-word"]}), 0o600, "host: Input should be a valid string"),
        ("pa55-word", 0o600, "not a JSON object"),
        ("[1]", 0o600, "not a JSON object"),
        (json.dumps({"host": "h"}), 0o644, "has mode 0644"),
    ],
)
def test_a_connection_that_is_not_in_order_is_refused_without_its_secrets(
    runtime: Runtime, text: str, mode: int, words: str
) -> None:
    put(runtime, text, mode)
    with pytest.raises(SpecError) as refused:
        connections.find("hook", runtime)
    assert words in refused.value.why
    assert "pa55-word" not in str(refused.value)
    with pytest.raises(SpecError, match="no connection 'other'") as unknown:
        load(runtime, "json:dumps", connection="other")
    assert "known connections: hook" in unknown.value.why
