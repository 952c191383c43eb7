"""Is data lost? Every answer has its evidence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from recorded_rows import batch

from lakeward.connectors.commit_protocol.follow import BlockReason
from lakeward.connectors.kafka.position import CREATED_AGAIN, REPLACED
from lakeward.supervision import observe
from lakeward.supervision.decide.health import State
from lakeward.supervision.decide.remedy import OF_THE_TABLE
from lakeward.supervision.report import advice, safety
from lakeward.supervision.report.block import block
from lakeward.supervision.report.document import document
from lakeward.supervision.report.lag import Lag, Partition
from lakeward.supervision.report.late import LateRecords
from lakeward.supervision.report.material import Material
from lakeward.supervision.report.safety import Lost
from lakeward.supervision.report.sources import Planned


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("rolled-back", Lost.YES),
        ("table-replaced", Lost.YES),
        ("source-expired", Lost.YES),
        ("topic-added-late", Lost.NO),
        ("topic-replaced", Lost.AT_RISK),
        ("checkpoint-ahead", Lost.AT_RISK),
        ("expired-unseen", Lost.UNKNOWN),
        ("gap", Lost.NO),
        ("older-checkpoint", Lost.NO),
        ("checkpoint-missing", Lost.NO),
        ("state-unfit", Lost.NO),
        ("poison", Lost.NO),
    ],
)
def test_what_a_stream_is_blocked_for_says_whether_data_is_lost(scenes, reason, lost) -> None:
    made = scenes["lost_checkpoint"]
    blocked = dict(made.stream.blocked or {}) | {"reason": reason, "why": "10 rows of seq 7"}
    now = BlockReason(reason, "w", "10 rows of seq 7", "n") if reason in OF_THE_TABLE else None
    changed = made.changed(stream=replace(made.stream, blocked=blocked), sources=replace(made.sources, halt=now))
    m = changed.material()
    answer = safety.lost(m)
    assert answer.lost is lost
    if lost is Lost.YES:
        assert "10 rows of seq 7" in answer.text


@pytest.mark.parametrize("reason", ["rolled-back", "table-missing", "table-replaced"])
def test_rows_that_are_in_the_table_again_are_not_lost_any_more(scenes, reason) -> None:
    made = scenes["lost_checkpoint"]
    blocked = dict(made.stream.blocked or {}) | {"reason": reason, "why": "10 rows of seq 7 are gone"}
    again = made.changed(stream=replace(made.stream, blocked=blocked))
    assert safety.lost(again.material()).lost is Lost.NO
    assert again.document()["next"] == "lakeward streams start flights"
    away = again.changed(sources=replace(made.sources, position=None, table_missing=True))
    assert safety.lost(away.material()).lost is Lost.YES
    silent = again.changed(sources=replace(made.sources, position=None, table_answered=False))
    assert safety.lost(silent.material()).lost is not Lost.NO, "a table that does not answer proves nothing"


def test_a_table_that_changed_since_the_block_is_reported_as_it_is_now(scenes) -> None:
    made = scenes["lost_checkpoint"]
    blocked = dict(made.stream.blocked or {}) | {"reason": "rolled-back", "why": "seq 7 to 9 are gone", "next": "old"}
    now = BlockReason("rolled-back", "w", "seq 9 is gone", 'lakeward sql --write "CALL x"')
    changed = made.changed(stream=replace(made.stream, blocked=blocked), sources=replace(made.sources, halt=now))
    assert "seq 9 is gone" in safety.lost(changed.material()).text
    assert changed.document()["next"].startswith('lakeward sql --write "CALL x"; then: lakeward streams start')


@pytest.mark.parametrize("reason", ["table-missing", "rolled-back", "wap-off"])
def test_a_table_created_again_after_its_drop_is_not_registered_but_given_up(scenes, reason) -> None:
    made = scenes["lost_checkpoint"]
    stored = {"reason": reason, "why": "it was dropped", "next": 'lakeward sql --write "CALL register_table"'}
    empty = made.changed(
        stream=replace(made.stream, blocked=dict(made.stream.blocked or {}) | stored),
        sources=replace(made.sources, position=None, table_answered=True),
        more={"newest": batch(batch_id=811, seq=812)},
    )
    assert safety.lost(empty.material()).lost is Lost.YES
    assert "created again" in str(empty.material().halt)
    assert empty.document()["next"].startswith("give the stream a new id and a new table")
    bare = empty.changed(sources=replace(empty.sources, halt=BlockReason("wap-off", "w", "y", "switch it on")))
    assert bare.document()["next"] == empty.document()["next"]
    gone = empty.changed(sources=replace(empty.sources, table_missing=True))
    assert gone.document()["next"].startswith('lakeward sql --write "CALL register_table"')
    renamed = empty.changed(stream=replace(empty.stream, blocked=stored | {"reason": "table-renamed"}))
    assert renamed.document()["next"].startswith('lakeward sql --write "CALL register_table"')


def test_records_the_source_gave_up_before_they_landed_are_lost_whatever_the_state_says(scenes) -> None:
    made = scenes["healthy"]
    gone = Lag((Partition("source", "flights", 0, 100, 500, 140),), 1.0, 1.0, 60.0)
    answer = safety.lost(made.changed(sources=replace(made.sources, lag=gone)).material())
    assert answer.lost is Lost.YES
    assert "flights/0: 100 to 139 (40 offsets)" in answer.text


def test_a_table_that_cannot_be_asked_is_no_proof(scenes) -> None:
    made = scenes["healthy"]
    away = replace(made.sources, position=None, table_answered=False)
    assert safety.lost(made.changed(sources=away).material()).lost is Lost.UNKNOWN


@pytest.mark.parametrize("reason", [None, "table-missing"])
def test_a_table_that_is_gone_took_what_was_landed_with_it(scenes, reason) -> None:
    made = scenes["healthy"]
    gone = made.changed(sources=replace(made.sources, position=None, table_missing=True))
    if reason is not None:
        gone = gone.changed(stream=replace(made.stream, blocked={"reason": reason, "what": "There is no table"}))
    m = gone.material()
    answer = safety.lost(m)
    assert answer.lost is Lost.YES
    assert (
        "nyc.flights does not exist any more, and the registry has batch 811 (seq 812) as landed in it" in answer.text
    )
    assert "restores the table" in answer.text
    assert safety.safe_to(replace(m, newest=batch(batch_id=811, seq=812))) is None
    assert safety.replays(m) is None
    assert any(line == "safe up to   not known: no table records it" for line in gone.lines())


@pytest.mark.parametrize("why", [REPLACED, CREATED_AGAIN])
def test_a_topic_that_was_replaced_is_a_risk_and_a_table_that_is_missing_as_well_a_loss(scenes, why) -> None:
    made = scenes["healthy"]
    replaced = replace(made.sources, lag=replace(made.sources.lag, unmeasured={"source": why}))
    answer = safety.lost(made.changed(sources=replaced).material())
    assert (answer.lost, answer.text.endswith(f"source source: {why}")) == (Lost.AT_RISK, True)
    without = replace(replaced, position=None, table_missing=True)
    assert safety.lost(made.changed(sources=without).material()).lost is Lost.YES


def test_a_table_that_does_not_say_what_it_holds_is_no_proof(scenes) -> None:
    made = scenes["healthy"]
    m = made.changed(sources=replace(made.sources, position=None)).material()
    assert safety.lost(m).lost is Lost.UNKNOWN
    newest = batch(batch_id=900, seq=901)
    assert "the registry has batch 900 (seq 901) as landed" in safety.lost(replace(m, newest=newest)).text


def test_before_the_first_batch_there_is_no_table_and_nothing_lost(scenes) -> None:
    made = scenes["healthy"]
    first = made.changed(
        seen=replace(made.seen, committed_at=None, commit_age_s=None, batch_id=None, seq=None),
        sources=replace(made.sources, position=None, table_missing=True),
    )
    answer = safety.lost(first.material())
    assert answer.lost is Lost.NO
    assert answer.text.startswith("nothing has landed yet")
    without_topic = replace(first.sources, lag=replace(made.sources.lag, unmeasured={"source": REPLACED}))
    answer = safety.lost(first.changed(sources=without_topic).material())
    assert answer.lost is Lost.UNKNOWN, "whether there ever was a topic cannot be known"
    assert answer.text.startswith("nothing has landed yet")


def test_waiting_for_more_than_half_the_retention_is_a_risk_with_the_time_left(scenes) -> None:
    made = scenes["healthy"]
    hot = Lag((Partition("source", "flights", 0, 0, 10, 0),), 4 * 86_400.0, 1.0, 7 * 86_400.0)
    m = made.changed(sources=replace(made.sources, lag=hot)).material()
    assert safety.lost(m).lost is Lost.AT_RISK
    assert safety.left_s(hot) == 3 * 86_400.0
    assert "3 days" in safety.lost(m).text
    assert safety.at_risk(replace(hot, oldest_s=3 * 86_400.0)) == ""
    assert safety.left_s(replace(hot, retention_s=None)) is None


def test_a_batch_that_was_planned_and_not_finished_is_run_again(scenes) -> None:
    again = safety.replays(scenes["dead_driver"].material())
    assert again is not None
    assert (again["again"], again["landed"], again["batch_id"], again["records"]) == (True, False, 812, 957 + 1014)


def test_a_batch_that_landed_before_spark_knew_is_said_to_have_landed(scenes) -> None:
    made = scenes["dead_driver"]
    same = Planned(811, False, dict(made.sources.position.end))
    again = safety.replays(made.changed(sources=replace(made.sources, planned=same)).material())
    assert again is not None
    assert again["landed"]
    text = "\n".join(made.changed(sources=replace(made.sources, planned=same)).lines())
    assert "batch 811 is repeated: it has landed already, and nothing is written twice" in text


def test_nothing_is_replayed_after_a_finished_batch(scenes) -> None:
    following = safety.replays(scenes["healthy"].material())
    assert following is not None
    assert (following["again"], following["batch_id"]) == (False, 812)


def test_of_a_socket_nobody_can_say(scenes) -> None:
    m = scenes["healthy"].material()
    generation = m.view.facts.generations["flights"]
    spec = {"id": "flights", "owner": "o", "source": {"socket": {"host": "h", "port": 1}}, "sink": {"console": {}}}
    facts = replace(m.view.facts, generations={"flights": replace(generation, spec=spec)})
    answer = safety.lost(replace(m, view=replace(m.view, facts=facts)))
    assert answer.lost is Lost.UNKNOWN
    assert "a socket has no retention" in answer.text


def ahead(scenes, **more):
    """A healthy stream whose watermark went to 2099."""
    made = scenes["healthy"]
    late = {"batches": 3, "dropped": 300, "kept": 600, "watermark": "2099-01-01T00:00:00.000Z"}
    return made.changed(seen=replace(made.seen, late=late), more={**made.more, **more})


def windowed(made, more=lambda view: None):
    """The view of a scene whose source has a watermark; `more` changes it further."""
    view = made.view()
    row = view.facts.generations["flights"]
    source = {"kafka": {"topics": ["flights"]}, "watermark": {"column": "t", "delay": "10m", "max_ahead": "off"}}
    view.facts.generations["flights"] = replace(row, spec={**row.spec, "sources": {"source": source}})
    more(view)
    found = observe.verdicts(view.facts, view.jobs)
    view = replace(view, verdicts=found)
    return Material(view, made.stream, made.sources, **made.more)


def test_a_watermark_ahead_of_the_clock_is_a_state_a_line_and_a_next_step(scenes) -> None:
    since = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
    m = windowed(ahead(scenes, late=LateRecords(300, since)))
    assert m.verdict.state is State.LAGGING
    assert m.verdict.why.startswith("its watermark is 2099-01-01 00:00:00 UTC")
    line = block(document(m))[1]
    assert line.startswith(
        "data lost?   AT RISK, but 300 late records were dropped since 2026-11-21 02:00:00 UTC: its watermark is 2099"
    )
    assert "every other record up to the offsets below" in line
    taken = advice.step(m)
    assert "max_ahead" in taken.text
    assert "new id" in taken.text


def test_late_and_skipped_records_are_reported_although_nothing_is_lost(scenes) -> None:
    made = scenes["healthy"]
    since = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
    late = made.changed(more={**made.more, "late": LateRecords(1, since)})
    assert late.lines()[1].startswith(
        "data lost?   NO, but 1 late record was dropped since 2026-11-21 02:00:00 UTC: every"
    )
    position = made.sources.position
    skipped = position.model_copy(update={"totals": position.totals.model_copy(update={"skipped": 22})})
    m = late.changed(sources=replace(made.sources, position=skipped)).material()
    answer = safety.lost(m)
    assert answer.lost is Lost.NO
    assert answer.but.endswith(" and 22 records were skipped by a person")
    assert safety.lost(made.material()).but == ""


def test_late_records_that_are_kept_are_not_dropped(scenes) -> None:
    made = scenes["healthy"]
    since = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
    kept = LateRecords(12, since, ("nyc.late",))
    m = made.changed(more={**made.more, "late": LateRecords(), "late_kept": kept}).material()
    assert block(document(m))[1].startswith(
        "data lost?   NO, but 12 late records were kept in nyc.late since 2026-11-21 02:00:00 UTC: every other record"
    )
    found = document(m)
    assert (found["late_dropped"], found["late_kept"]) == (0, 12)
    both = made.changed(more={**made.more, "late": LateRecords(1, since), "late_kept": kept}).material()
    assert safety.lost(both).but == (
        "1 late record was dropped since 2026-11-21 02:00:00 UTC and "
        "12 late records were kept in nyc.late since 2026-11-21 02:00:00 UTC"
    )


def test_a_watermark_ahead_of_the_clock_puts_no_record_at_risk_that_is_kept(scenes) -> None:
    def kept(view):
        row = view.facts.generations["flights"]
        view.facts.generations["flights"] = replace(row, spec={**row.spec, "late": {"table": "nyc.late"}})

    m = windowed(ahead(scenes), kept)
    assert m.verdict.state is State.LAGGING
    assert m.verdict.why.startswith("its watermark is 2099-01-01 00:00:00 UTC")
    assert "every record that is earlier is late, and kept in nyc.late" in m.verdict.why
    assert safety.lost(m).lost is Lost.NO
