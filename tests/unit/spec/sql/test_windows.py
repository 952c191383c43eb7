"""The window of a transform, seen in its SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.spec.sql.windows import NoWindow, Window, window_of


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT window.start AS h, k, count(*) FROM source GROUP BY window(at, '1 hour'), k", ("h", "start", 60)),
        ("SELECT k, window.end FROM source GROUP BY k, window(at, '20 minutes', '5 minutes')", ("end", "end", 20)),
        ("SELECT `window`.`end` AS u FROM s WHERE k > 1 GROUP BY window(at, 'INTERVAL 2 HOURS')", ("u", "end", 120)),
    ],
)
def test_the_edge_and_the_length_are_seen(sql: str, found: tuple[str, str, int]) -> None:
    assert window_of(sql) == Window(found[0], found[1], timedelta(minutes=found[2]))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT count(*) AS c FROM source GROUP BY k", "it does not group by one window"),
        ("SELECT window.start FROM s GROUP BY window(a, '1 hour'), window(b, '1 hour')", "it does not group by one"),
        ("SELECT session_window.start FROM s GROUP BY session_window(at, '1 hour')", "a session has no fixed length"),
        ("SELECT count(*) FROM s GROUP BY window(at, '1 hour')", "neither window.start nor window.end"),
        ("SELECT window.start FROM s GROUP BY window(at, '1 month')", "the length of its window is not a plain one"),
        ("SELECT window.start FROM s GROUP BY window(at, '1 hour') HAVING count(*) > 1", "its SQL is more than one"),
        ("SELECT * FROM (SELECT window.start FROM s GROUP BY window(at, '1 hour'))", "its SQL is more than one"),
    ],
)
def test_why_there_is_none_is_said(sql: str, why: str) -> None:
    with pytest.raises(NoWindow, match=why):
        window_of(sql)


def test_only_whole_windows_are_within() -> None:
    low, high = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC)
    hour = timedelta(hours=1)
    assert Window("w", "start", hour).within(low, high) == (low, high - hour)
    assert Window("w", "end", hour).within(low, high) == (low + hour, high)
