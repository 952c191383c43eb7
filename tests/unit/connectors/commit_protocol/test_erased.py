"""The count of erased rows: a number in a property of the table."""

from __future__ import annotations

import pytest

from lakeward.connectors.commit_protocol import erased
from lakeward.platform.errors import Blocked


def test_rows_that_were_erased_are_counted_by_stream() -> None:
    assert erased.of({erased.key("s"): "7"}, "s", "a.t") == 7
    assert erased.of({erased.key("other"): "7"}, "s", "a.t") == 0


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "٣"])
def test_a_property_that_is_no_number_blocks_and_is_named(text: str) -> None:
    with pytest.raises(Blocked) as raised:
        erased.of({erased.key("s"): text}, "s", "a.t")
    assert raised.value.reason == "erased-unreadable"
    assert erased.key("s") in raised.value.why
