"""A jar runs only if its bytes are the reviewed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.jars import check
from lakeward.platform.errors import Refused


def test_verify_counts_what_it_compared(jars: Path) -> None:
    assert check.verify(jars) == 3
    assert check.missing(jars) == []


def test_verify_names_a_changed_byte_with_expected_and_found(jars: Path) -> None:
    jar = jars / "spark" / "b-2.jar"
    before = check.digest_of(jar)
    content = bytearray(jar.read_bytes())
    content[500] ^= 1
    jar.write_bytes(content)

    with pytest.raises(Refused) as refusal:
        check.verify(jars)

    assert "b-2.jar" in refusal.value.what
    assert before in refusal.value.why
    assert check.digest_of(jar) in refusal.value.why
    assert str(jar) in refusal.value.next


def test_verify_names_a_missing_jar(jars: Path) -> None:
    (jars / "kafka" / "a-1.jar").unlink()
    assert check.missing(jars) == ["kafka/a-1.jar"]
    with pytest.raises(Refused, match="missing") as refusal:
        check.verify(jars)
    assert "kafka/a-1.jar" in refusal.value.why


def test_verify_refuses_a_jar_nobody_reviewed(jars: Path) -> None:
    (jars / "spark" / "stranger.jar").write_bytes(b"x")
    with pytest.raises(Refused, match="never reviewed") as refusal:
        check.verify(jars)
    assert "stranger.jar" in refusal.value.what


def test_the_checked_in_list_is_what_sha256sum_reads() -> None:
    lines = check.LIST.read_text().splitlines()
    assert lines, "the list is empty"
    for line in lines:
        digest, separator, name = line.partition("  ")
        assert separator, line
        assert len(digest) == 64, line
        assert int(digest, 16) >= 0, line
        assert name.startswith(("spark/", "kafka/")), line
        assert name.endswith(".jar"), line
