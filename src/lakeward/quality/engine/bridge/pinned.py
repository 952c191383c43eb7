"""Whether the Great Expectations that is installed is the one whose internals the bridge was written against."""

from __future__ import annotations

from importlib.metadata import version

from lakeward.platform.errors import LakewardError

WRITTEN_FOR = "1.24"
"""Minor version. A newer one needs the test of equality (tests/spark/quality/test_equality.py) to pass first."""


class Moved(LakewardError):
    """Raised when Great Expectations is not the one the bridge knows: a wrong number would be a wrong verdict."""


def assert_known(installed: str | None = None) -> None:
    """Refuse any other minor version.

    Raises:
        Moved: the installed one is another.
    """
    found = installed or version("great-expectations")
    if found.rsplit(".", 1)[0] != WRITTEN_FOR:
        raise Moved(
            f"The bridge to Great Expectations knows version {WRITTEN_FOR} only",
            why=f"version {found} is installed; metrics are its internals, and moved ones could give a wrong verdict",
            next=f"pip install 'great-expectations=={WRITTEN_FOR}.*'   (a source checkout: make install)",
        )
