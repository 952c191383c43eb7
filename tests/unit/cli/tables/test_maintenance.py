"""`lakeward tables policy`: from the project's files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.app import main

ROOT = Path(__file__).parents[4]


def policy(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["tables", "policy", *arguments, "--project", str(ROOT), "--home", "/nonexistent"])
    found = capsys.readouterr()
    return int(end.value.code or 0), found.out, found.err


def test_every_threshold_has_its_value_and_its_origin(capsys) -> None:
    code, out, _ = policy(capsys, "nyc.flights", "-o", "json")
    said = json.loads(out)
    assert code == 0
    assert set(said) == {"table", "streams", "policy", "origins"}
    assert said["streams"] == ["flights"]
    assert said["policy"]["class"] == "append-stream"
    assert said["policy"]["compact"]["min_fragments"] == 8
    assert said["origins"]["compact.min_fragments"].startswith("conf/tables.yaml unsafe[0] (the demonstration")
    assert said["policy"]["compact"]["target_size"] is None
    lines = dict(line.split(maxsplit=1) for line in policy(capsys, "nyc.flights")[1].splitlines())
    assert set(lines) == set(said["origins"])
    assert lines["observe"].startswith("10s   # conf/tables.yaml unsafe[0]")
    assert lines["compact.target_size"].startswith("-   # default: ")


def test_a_table_no_stream_writes_is_a_batchs(capsys) -> None:
    said = json.loads(policy(capsys, "other.table", "-o", "json")[1])
    assert (said["streams"], said["policy"]["class"]) == ([], "append-batch")


def test_what_is_no_table_is_refused(capsys) -> None:
    code, _, err = policy(capsys, "flights")
    assert code == 2
    assert "a table is namespace.table" in err
