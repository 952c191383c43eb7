"""The bridge knows one minor version of Great Expectations, and refuses others by name."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from lakeward.quality.engine.gx import WRITTEN_FOR, UnsupportedGxVersion, assert_known


def test_the_installed_version_is_the_known_one() -> None:
    assert_known()
    assert version("great-expectations").startswith(f"{WRITTEN_FOR}.")


@pytest.mark.parametrize("other", ["1.25.0", "1.23.9", "2.24.1", "1.240.1"])
def test_another_minor_version_is_refused_with_the_way_out(other: str) -> None:
    with pytest.raises(UnsupportedGxVersion) as refused:
        assert_known(other)
    assert other in refused.value.what and f"great-expectations=={WRITTEN_FOR}.*" in refused.value.next
