"""What `--only` starts."""

from __future__ import annotations

import pytest

from lakeward.platform.errors import SpecError
from lakeward.stack import groups


def test_everything_unless_asked() -> None:
    assert groups.resolve(None) == {"postgres", "kafka", "connect", "airflow", "checker"}


def test_what_a_part_needs_comes_along() -> None:
    assert groups.resolve(["kafka"]) == {"kafka"}
    assert groups.resolve(["airflow"]) == {"airflow", "postgres"}
    assert groups.resolve(["checker"]) == {"checker", "connect", "postgres"}
    assert groups.resolve(["connect", "kafka"]) == {"connect", "kafka", "postgres"}


def test_no_part_at_all_is_not_everything() -> None:
    with pytest.raises(SpecError, match="--only is empty"):
        groups.resolve([])


def test_an_unknown_part_is_named_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="postgers") as error:
        groups.resolve(["postgers"])
    assert "postgres, kafka" in error.value.why
    assert error.value.next.startswith("lakeward stack up")
    assert error.value.exit_code == 2
