"""The walk down main, case by case and against every short history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.connectors.commit_protocol.ancestry import Finding, Link, newest_of, seq_of, walk


def _chain(*links: tuple[int, int, int | None]) -> dict[int, Link]:
    return {snapshot: Link(snapshot, seq, parent) for snapshot, seq, parent in links}


def test_the_position_is_met_below_later_commits() -> None:
    chain = _chain((10, 1, None), (20, 2, 10), (30, 3, 20))

    found = walk(30, chain.get, 10, 1)

    assert found.finding is Finding.MET
    assert [link.snapshot for link in found.walked] == [30, 20]


def test_a_chain_cut_by_expiry_above_the_position_is_right() -> None:
    chain = _chain((30, 3, 20))

    assert walk(30, chain.get, 10, 1).right


def test_a_lower_sequence_first_means_rolled_back() -> None:
    chain = _chain((10, 1, None), (20, 2, 10), (40, 4, 10))  # 20 was rolled back, then 40 was written

    found = walk(40, chain.get, 20, 2)

    assert found.finding is Finding.ROLLED_BACK
    assert found.stop is not None and found.stop.snapshot == 10


def test_the_same_sequence_with_another_snapshot_means_rolled_back() -> None:
    assert walk(21, _chain((21, 2, 10)).get, 20, 2).finding is Finding.ROLLED_BACK


def test_a_beginning_younger_than_the_position_means_replaced() -> None:
    chain = _chain((10, 1, None), (20, 2, 10), (30, 3, None), (40, 4, 30))

    assert walk(40, chain.get, 20, 2).finding is Finding.REPLACED
    assert walk(None, chain.get, 20, 2).finding is Finding.REPLACED


def test_without_a_snapshot_in_the_position_nothing_can_be_gone() -> None:
    chain = _chain((10, 1, None), (20, 2, 10))

    assert walk(None, chain.get, None, 0).right
    assert [link.snapshot for link in walk(20, chain.get, None, 0).walked] == [20, 10]
    assert walk(20, _chain((20, 2, 10)).get, None, 0).right


@given(length=st.integers(2, 12), data=st.data())
def test_rolling_back_past_the_position_is_always_seen_before_expiry(length: int, data: st.DataObject) -> None:
    """Any straight history, rolled back to before the position, then written on."""
    main = {index: Link(index, index, index - 1 or None) for index in range(1, length + 1)}
    landed = data.draw(st.integers(2, length))
    back_to = data.draw(st.integers(1, landed - 1))
    later = data.draw(st.integers(0, 3))
    head = back_to
    for index in range(length + 1, length + 1 + later):
        main[index] = Link(index, index, head)
        head = index

    assert walk(length, main.get, landed, landed).finding is Finding.MET
    assert walk(head, main.get, landed, landed).finding is Finding.ROLLED_BACK


def test_the_newest_seq_on_main_comes_from_the_ids_snapshots_were_published_under() -> None:
    links = {
        3: Link(3, 3, 2, wap_id="other/9/ab"),
        2: Link(2, 2, 1, wap_id="flights/4/ab"),
        1: Link(1, 1, None, wap_id="flights/3/ab"),
    }

    assert newest_of("flights", 3, links.get) == 4
    assert newest_of("nobody", 3, links.get) is None


def test_an_attempt_tells_its_stream_and_seq() -> None:
    assert seq_of("flights/12/00ff", "flights") == 12
    assert seq_of("flights/12/00ff", "other") is None
    assert seq_of("flights/x/00ff", "flights") is None
    assert seq_of("by hand", "flights") is None
