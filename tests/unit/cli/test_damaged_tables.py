"""Commands about a table whose files are missing or damaged: words and an exit code, no stack trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMANDS = (
    ("streams", "audit", "flights"),
    ("streams", "reset", "flights", "--to", "latest", "--dry-run"),
    ("streams", "recover", "flights", "--dry-run"),
    ("streams", "rebuild", "flights", "--dry-run"),
)


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def data_file(table: Any) -> Path:
    return local(next(iter(table.scan().plan_files())).file.file_path)


def no_data_file(table: Any) -> None:
    data_file(table).unlink()


def cut_data_file(table: Any) -> None:
    data_file(table).write_bytes(b"PAR1 cut")


def no_manifest_list(table: Any) -> None:
    local(table.current_snapshot().manifest_list).unlink()


def cut_manifest(table: Any) -> None:
    local(table.current_snapshot().manifests(table.io)[0].manifest_path).write_bytes(b"x")


def no_metadata(table: Any) -> None:
    local(table.metadata_location).unlink()


def empty_metadata(table: Any) -> None:
    local(table.metadata_location).write_text("")


def odd_name_mapping(table: Any) -> None:
    file = local(table.metadata_location)
    document = json.loads(file.read_text())
    document["properties"]["schema.name-mapping.default"] = "none"
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "damage",
    [
        no_data_file,
        no_metadata,
        *(
            pytest.param(each, marks=pytest.mark.campaign(held_by="test_a_command_says_what_it_cannot_read"))
            for each in (cut_data_file, no_manifest_list, cut_manifest, empty_metadata, odd_name_mapping)
        ),
    ],
)
def test_a_command_says_what_it_cannot_read(
    site: Any, landed: Callable[..., Any], damage: Callable[[Any], None]
) -> None:
    damage(landed({0: 5, 1: 0}, rows=[(0, each) for each in range(5)]).refresh())
    for words in COMMANDS:
        done = site.lakeward(*words)
        if words[1] == "recover" and damage not in (no_metadata, empty_metadata):
            assert done.code == 0, "it reads the position alone"
            continue
        assert done.code == 3, (words, done.err)
        assert "Cannot read" in done.err and "LW-9148" in done.err and "Traceback" not in done.err
        if damage is cut_data_file:
            assert ".parquet is damaged" in done.err


def test_a_damaged_table_does_not_stop_the_lint_of_all_suites(site: Any, landed: Callable[..., Any]) -> None:
    no_metadata(landed({0: 1}, rows=[(0, 0)]).refresh())
    done = site.lakeward("quality", "lint", "-o", "json")
    assert (done.code, done.json["ok"]) == (0, True), "the specs say the columns"


def test_a_column_of_a_type_that_pyiceberg_lacks_is_named(site: Any, landed: Callable[..., Any]) -> None:
    file = local(landed({0: 1}, rows=[(0, 0)]).refresh().metadata_location)
    document = json.loads(file.read_text())
    document["schemas"][-1]["fields"].append({"id": 99, "name": "payload", "required": False, "type": "variant"})
    file.write_text(json.dumps(document))
    for words in (
        ("tables", "restore", "nyc.flights", "--to", "1", "--dry-run"),
        ("tables", "erase", "nyc.flights", "--where", "n = 1", "--dry-run"),
        ("quality", "profile", "nyc.flights", "--dry-run"),
        *COMMANDS,
    ):
        done = site.lakeward(*words)
        assert done.code == 3, (words, done.err)
        assert "column payload: variant" in done.err and "LW-3531" in done.err, (words, done.err)
