"""What is a folder's own in the commit protocol; the contract itself is in tests/unit/connectors/exact."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from contract_rig import ROWS, FolderRig, at, die

from lakeward.connectors.folder import store
from lakeward.platform.errors import Blocked, Fenced


def test_a_batch_is_not_published_behind_one_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """The name of the next folder is free then, too: only the position tells that rows are missing before it."""
    rig = FolderRig(tmp_path / "out")
    for batch in range(2):
        rig.land(batch)

    with ExitStack() as held, pytest.raises(Fenced):
        at(held, "after-stage", lambda: shutil.rmtree(store.folder_of(rig.path, 2)))
        rig.land(2)

    assert rig.values() == list(range(ROWS))
    with pytest.raises(Blocked) as blocked:
        rig.land(2)
    assert blocked.value.reason == "gap"


def test_nothing_that_was_staged_is_left_behind(tmp_path: Path) -> None:
    rig = FolderRig(tmp_path / "out")
    rig.land(0)
    with ExitStack() as held, pytest.raises(RuntimeError):
        at(held, "after-stage", die)
        rig.land(1)
    rig.land(1, rig.writer(bounds={1: (ROWS, ROWS)}), values=())

    assert list((rig.path / store.STAGING).iterdir()) == []
    assert sorted(each.name for each in rig.path.glob("seq=*")) == [store.folder_of(rig.path, 1).name]
