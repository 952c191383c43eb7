"""The contract of the commit protocol: what is tried again, how often, and what is waited for."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise

import pytest
from contract_rig import ROWS, Died, Rig, at

from lakeward.connectors.commit_protocol.attempt import ATTEMPTS, RetryCommit
from lakeward.connectors.commit_protocol.batch import Counted
from lakeward.platform.errors import DependencyDown, Fenced, Transient
from lakeward.telemetry import failpoints


def _down() -> DependencyDown:
    return DependencyDown("The catalog does not answer", why="the connection was lost")


@pytest.mark.parametrize("step", ["stage", "publish"])
@pytest.mark.parametrize("error", [RetryCommit("the table changed"), _down()], ids=["changed", "away"])
def test_an_attempt_that_cannot_go_on_leads_back_to_the_decision(rig: Rig, step: str, error: Exception) -> None:
    writer = rig.writer()
    rig.land(0, writer)
    writer.trace.clear()
    writer.fails[step] = [error, error]

    landed = rig.land(1, writer)

    assert (landed.seq, landed.already) == (2, False)
    assert writer.trace.count("stage") == 3
    steps = [each for each in writer.trace if each in ("load", "stage")]
    assert steps[0] == "load"
    assert all(before == "load" for before, each in pairwise(steps) if each == "stage")
    assert rig.values() == list(range(2 * ROWS))


def test_each_attempt_stages_under_an_id_of_its_own(rig: Rig) -> None:
    writer = rig.writer()
    ids: list[str] = []
    stage = writer.stage

    def noting(rows: object, state: object, attempt: str) -> object:
        ids.append(attempt)
        return stage(rows, state, attempt)

    writer.stage = noting
    writer.fails["publish"] = [RetryCommit("the table changed")] * 2
    rig.land(0, writer)
    assert len(set(ids)) == 3
    assert {each.rpartition("/")[0] for each in ids} == {"flights/1"}
    assert rig.position.attempt == ids[-1]


def test_what_was_staged_and_is_gone_is_staged_again(rig: Rig, held: ExitStack) -> None:
    """Expiry took it, or whoever removes what nobody refers to."""
    writer = rig.writer()
    at(held, "after-stage", rig.lose_staged)
    assert rig.land(0, writer).seq == 1
    assert (writer.trace.count("stage"), rig.values()) == (2, list(range(ROWS)))


def test_a_sink_that_never_holds_still_ends_in_contention(rig: Rig) -> None:
    writer = rig.writer()
    writer.fails["publish"] = [RetryCommit(f"change {number}") for number in range(ATTEMPTS)]

    with pytest.raises(Transient, match="contention") as raised:
        rig.land(0, writer)

    assert f"change {ATTEMPTS - 1}" in raised.value.why
    assert writer.history in raised.value.next
    assert writer.trace.count("stage") == ATTEMPTS
    assert (rig.values(), rig.raw) == ([], None)
    assert rig.land(0, writer).seq == 1, "the same batch may be tried again by the same writer"
    assert rig.values() == list(range(ROWS))


def test_counts_are_of_the_attempt_that_landed(rig: Rig) -> None:
    writer = rig.writer()
    writer.fails["publish"] = [RetryCommit("the table changed")] * 2
    landed = rig.land(0, writer, counted=Counted(ROWS))
    assert landed.counts.landed == landed.totals.landed == rig.position.totals.landed == ROWS


def test_an_outage_is_waited_out_where_the_sink_is_read(rig: Rig) -> None:
    writer = rig.writer(patience_s=60)
    writer.fails["load"] = [_down(), _down()]
    assert rig.land(0, writer).seq == 1
    assert rig.values() == list(range(ROWS))


def test_an_outage_longer_than_the_patience_is_raised_and_the_batch_may_be_called_again(rig: Rig) -> None:
    writer = rig.writer(patience_s=0)
    writer.fails["load"] = [_down()]
    with pytest.raises(DependencyDown, match="catalog does not answer"):
        rig.land(0, writer)
    assert rig.land(0, writer).seq == 1


def test_a_driver_that_stops_waits_no_longer(rig: Rig) -> None:
    writer = rig.writer(patience_s=60, stopping=lambda: True)
    writer.fails["load"] = [_down()] * 100
    with pytest.raises(DependencyDown):
        rig.land(0, writer)
    assert writer.trace.count("load") == 1


def test_another_error_is_not_tried_again(rig: Rig) -> None:
    writer = rig.writer()
    writer.fails["stage"] = [ValueError("a column does not fit")]
    with pytest.raises(ValueError, match="does not fit"):
        rig.land(0, writer)
    assert writer.trace.count("stage") == 1


BATCHES = 12
PASSED = ("after-check", "after-stage", "after-quarantine", "before-publish", "after-publish", "after-land")


@pytest.mark.parametrize("seed", range(12))
def test_whatever_comes_between_each_record_lands_once(rig: Rig, seed: int) -> None:
    """Two drivers of one checkpoint, one of them a zombie; at each step either may die, lose an answer, be refused by
    the sink, or be overtaken by the other. Some rows are filtered, some are bad."""
    chance = random.Random(seed)
    expected = [n for n in range(BATCHES * ROWS) if n % 5 and n % 7]
    bad = {n for n in range(BATCHES * ROWS) if n % 7 == 0}
    quarantine: set[int] = set()
    committed = {"next": 0}  # Spark's commit log, which both write
    drivers = [rig.writer(patience_s=0), rig.writer(patience_s=0)]
    happened, inside = Counter[str](), [False]

    def run(which: int) -> None:
        """One batch by one driver, as Spark runs it."""
        batch = committed["next"]
        if batch == BATCHES:
            return
        span = range(batch * ROWS, batch * ROWS + ROWS)
        kept = bad & set(span)
        try:
            landed = rig.land(
                batch, drivers[which], tuple(n for n in span if n in expected),
                counted=Counted(ROWS, len(kept)), before_publish=lambda: quarantine.update(kept),
            )  # fmt: skip
        except (Fenced, Died) as error:
            happened[type(error).__name__] += 1
            drivers[which] = rig.writer(patience_s=0)
        except Transient:
            happened["contention"] += 1
        else:
            happened["already" if landed.already else "landed"] += 1
            if chance.random() < 0.8:  # else it dies between its landing and Spark's commit log
                committed["next"] = max(committed["next"], batch + 1)
            else:
                drivers[which] = rig.writer(patience_s=0)

    def step() -> None:
        drawn = chance.random()
        if drawn < 0.06:
            raise Died
        if drawn < 0.12:
            raise _down()
        if drawn < 0.18:
            raise RetryCommit("drawn")
        if drawn < 0.26 and not inside[0]:
            inside[0] = True
            try:
                run(chance.randrange(2))
            finally:
                inside[0] = False
        elif drawn < 0.28:
            rig.lose_staged()

    with ExitStack() as held:
        for name in PASSED:
            held.enter_context(failpoints.on(name, step))
        for _ in range(1000):
            if committed["next"] == BATCHES:
                break
            run(chance.randrange(2))

    assert committed["next"] == BATCHES, happened
    assert rig.values() == expected, happened
    assert quarantine == bad
    position = rig.position
    assert (position.seq, position.end) == (BATCHES, {"source": str(BATCHES * ROWS)}), happened
    assert position.totals.model_dump(exclude={"skipped"}) == {
        "consumed": BATCHES * ROWS,
        "landed": len(expected),
        "quarantined": len(bad),
        "filtered": BATCHES * ROWS - len(expected) - len(bad),
    }


class _Proof:
    """Counts that are known after the write, of rows that may be written once."""

    def __init__(self, counted: Counted | None) -> None:
        self.counted, self.written, self.landed = counted, 0, list[int]()

    def before(self) -> None:
        self.written += 1
        if self.written > 1:
            raise ArithmeticError("written again")

    def after(self, landed: int) -> Counted:
        self.landed.append(landed)
        if self.counted is None:
            raise ArithmeticError("not proven")
        return self.counted


def test_counts_that_the_write_itself_gives_are_of_the_staged_rows(rig: Rig) -> None:
    proof = _Proof(Counted(ROWS + 1))
    landed = rig.land(0, counted=proof)
    assert proof.landed == [ROWS]
    assert (landed.counts.consumed, landed.filtered, rig.position.totals.consumed) == (ROWS + 1, 1, ROWS + 1)


def test_counts_that_are_not_proven_leave_nothing_behind_and_the_batch_may_be_landed_otherwise(rig: Rig) -> None:
    writer, quarantined = rig.writer(), list[int]()
    with pytest.raises(ArithmeticError, match="not proven"):
        rig.land(0, writer, counted=_Proof(None), before_publish=lambda: quarantined.append(1))
    assert (rig.values(), rig.raw, quarantined) == ([], None, [])
    landed = rig.land(0, writer, counted=Counted(ROWS))
    assert (landed.already, landed.counts.consumed, rig.values()) == (False, ROWS, list(range(ROWS)))


def test_rows_that_may_be_written_once_are_not_written_again(rig: Rig) -> None:
    writer = rig.writer()
    writer.fails["publish"] = [RetryCommit("the table changed")]
    with pytest.raises(ArithmeticError, match="written again"):
        rig.land(0, writer, counted=_Proof(Counted(ROWS)))
    assert (writer.trace.count("stage"), rig.values(), rig.raw) == (1, [], None)


def test_counts_of_an_own_publication_whose_answer_was_lost_are_those_of_its_write(rig: Rig, held: ExitStack) -> None:
    writer, lost = rig.writer(), [RetryCommit("the answer was lost")]

    def lose() -> None:
        if lost:
            raise lost.pop()

    at(held, "after-publish", lose)
    landed = rig.land(0, writer, counted=_Proof(Counted(ROWS + 2)))
    assert (landed.already, landed.counts.consumed, landed.filtered) == (False, ROWS + 2, 2)
    assert rig.values() == list(range(ROWS))
