from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors import python_sink
from lakeward.errors import SpecError


def test_a_function_is_found_by_its_name() -> None:
    assert python_sink.load("alerts", "json:dumps")({"a": 1}) == '{"a": 1}'  # type: ignore[call-arg, arg-type]  # not a sink, but a function


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.hooks:send", "No module named 'nowhere'"),
        ("json:nothing", "module json has no function nothing"),
        ("json:__doc__", "json:__doc__ cannot be called"),
        ("breaks_at_import:send", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_function_is_said_before_anything_runs(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_at_import.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError) as refused:
        python_sink.load("alerts", name)
    assert words in refused.value.why
