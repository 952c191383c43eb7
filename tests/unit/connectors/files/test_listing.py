"""Files listed once: their order, their positions, and what is refused when they are not what they were."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.connectors.files import listing
from lakeward.connectors.files.listing import Listing, files_in
from lakeward.platform.errors import Refused, SpecError

_T = 1_700_000_000


def _file(folder: Path, name: str, seconds: int, text: str = "x") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (_T + seconds, _T + seconds))
    return path


def _names(found: Listing) -> list[str]:
    return [each.path.name for each in found.files]


def test_files_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    for name, at in (("b/2.json", 1), ("1.json", 2), ("a 0.json", 0)):
        _file(tmp_path, name, at)
    for name in (".part", "_SUCCESS", "empty"):
        _file(tmp_path, name, 0, "" if name == "empty" else "x")
    whole = listing.list_files(str(tmp_path))
    assert _names(whole) == ["a 0.json", "2.json", "1.json"]
    assert _names(listing.list_files(f"file://{tmp_path}/**/*.json")) == _names(whole)
    assert _names(listing.list_files(str(tmp_path / "1.json"))) == ["1.json"]
    low, high = (datetime.fromtimestamp(_T + each, UTC) for each in (1, 2))
    assert _names(listing.list_files(str(tmp_path), low, high)) == ["2.json"]

    steps, at = [], whole.start
    while (upto := whole.next(at, 2)) is not None:
        steps.append([each.path.rsplit("/", 1)[-1] for each in whole.between(at, upto)])
        at = upto
    assert steps == [["a%200.json", "2.json"], ["1.json"]]
    assert (at, files_in(at), files_in(whole.start)) == (whole.end, 3, 0)


@pytest.mark.parametrize("change", ["touched", "longer", "removed", "between"])
def test_what_landed_must_be_what_it_was(tmp_path: Path, change: str) -> None:
    first, second = _file(tmp_path, "1", 1), _file(tmp_path, "2", 3)
    at = listing.list_files(str(tmp_path)).end
    moment = datetime.fromtimestamp(_T + 100, UTC).isoformat()
    _file(tmp_path, "3", 4)
    listing.list_files(str(tmp_path)).goes_on(at, moment)  # what came later is only more

    if change == "removed":
        second.unlink()
    elif change == "between":
        _file(tmp_path, "0", 2)
    elif change == "longer":
        _file(tmp_path, "1", 1, "xy")
    else:
        os.utime(first, (_T + 200, _T + 200))
    with pytest.raises(Refused, match="landed files changed") as refused:
        listing.list_files(str(tmp_path)).goes_on(at, moment)
    assert (str(first) in refused.value.why) == (change == "touched")


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "1", 1)
    found = listing.list_files(str(tmp_path))
    found.unchanged(found.files)
    path.write_text("xy")
    with pytest.raises(Refused, match="changed or removed while they were read"):
        found.unchanged(found.files)
    path.unlink()
    with pytest.raises(Refused, match=str(path)):
        found.unchanged(found.files)


def test_no_files_are_said_with_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=f"no file matches {tmp_path}/x"):
        listing.list_files(str(tmp_path / "x*"))
    with pytest.raises(SpecError, match="in that range of time"):
        listing.list_files(str(_file(tmp_path, "1", 1)), datetime.fromtimestamp(_T + 5, UTC))
    with pytest.raises(SpecError, match="Cannot land files at"):
        listing.list_files("s3://bucket/x")
