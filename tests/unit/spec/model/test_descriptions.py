"""Descriptions of spec keys come from the docstrings below the fields, without the cost of reading them at import."""

from __future__ import annotations

import importlib
import py_compile
from pathlib import Path

import pytest

from lakeward.spec.model.base import SpecModel, partial
from lakeward.spec.model.descriptions import descriptions


class Limits(SpecModel):
    rows: int = 1
    """Most rows a batch."""
    quiet: bool = False


class Wider(Limits):
    columns: int = 1
    """Most columns
    of a table."""


LimitsOverride = partial(Limits, "LimitsOverride")


class Rule(LimitsOverride):  # type: ignore[misc, valid-type]  # made by partial() above
    match: str
    """The tables of this rule."""


@pytest.mark.parametrize(
    ("model", "described"),
    [
        (Limits, {"rows": "Most rows a batch."}),
        (Wider, {"rows": "Most rows a batch.", "columns": "Most columns\nof a table."}),
        (LimitsOverride, {"rows": "Most rows a batch."}),
        (Rule, {"rows": "Most rows a batch.", "match": "The tables of this rule."}),
    ],
)
def test_a_field_is_described_by_the_docstring_below_it(model: type[SpecModel], described: dict[str, str]) -> None:
    assert descriptions(model) == described
    properties = model.model_json_schema()["properties"]
    assert {name: shown["description"] for name, shown in properties.items() if "description" in shown} == described


def test_a_model_without_source_has_no_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "sourceless_model.py"
    source.write_text(
        "from lakeward.spec.model.base import SpecModel\n"
        "class Sourceless(SpecModel):\n    rows: int = 1\n    '''Most rows.'''\n"
    )
    py_compile.compile(str(source), cfile=str(tmp_path / "sourceless_model.pyc"))
    source.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    assert descriptions(importlib.import_module("sourceless_model").Sourceless) == {}
