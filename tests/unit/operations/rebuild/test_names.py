"""What a rebuild's tables are called."""

from __future__ import annotations

import pytest

from lakeward.operations.rebuild import names


@pytest.mark.parametrize(
    ("location", "tables", "number"),
    [
        ("/w/nyc/t", [], 1),
        ("/w/nyc/t", ["nyc.t", "nyc.t_rebuild_1", "nyc.t_before_3", "nyc.t_rebuild_x", "nyc.other_rebuild_9"], 4),
        ("s3://w/nyc/t_rebuild_2/", ["nyc.t"], 3),  # its folder is that of the second one, whatever was dropped since
    ],
)
def test_a_number_is_no_tables_and_no_folders(location: str, tables: list[str], number: int) -> None:
    assert names.next_number("nyc.t", location, tables) == number


def test_a_fill_is_known_by_its_position() -> None:
    assert names.number_of("s", ["s", "s@backfill-7", "s@rebuild-2", "other@rebuild-9"]) == 2
    assert names.number_of("s", ["s", "s2@rebuild-4"]) is None
