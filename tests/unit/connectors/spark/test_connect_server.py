"""The protocol's own bytes, written without its library."""

from __future__ import annotations

import pytest

from lakeward.connectors.spark import connect_server
from lakeward.platform.errors import Internal


def test_a_field_is_its_number_its_length_and_its_content() -> None:
    assert connect_server._field(2, "abc") == b"\x12\x03abc"
    assert connect_server._field(1, b"x" * 127)[1] == 127


def test_a_field_whose_length_takes_two_bytes_is_refused() -> None:
    with pytest.raises(Internal, match="128 bytes"):
        connect_server._field(1, b"x" * 128)
