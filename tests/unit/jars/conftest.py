"""A small folder of jars with a list that fits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.jars import check


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three small jars and the list that fits them."""
    folder = tmp_path / "jars"
    for name in ("spark/a-1.jar", "spark/b-2.jar", "kafka/a-1.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 1000)
    listing = tmp_path / "jars.sha256"
    listing.write_text("".join(f"{check.digest_of(folder / name)}  {name}\n" for name in check.names(folder)))
    monkeypatch.setattr(check, "LIST", listing)
    return folder
