"""What somebody reads at night, as a whole: the texts stand in `blocks/`, and a change of one is a change to read."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from lakeward.connectors.commit_protocol.position import Totals
from lakeward.supervision.backends.base import Life
from lakeward.supervision.report.block import MOST, block, moment


def test_the_block_reads_as_it_is_in_its_file(scene, blocks) -> None:
    name, made = scene
    text = "\n".join(made.lines()) + "\n"
    if os.environ.get("LAKEWARD_UPDATE_BLOCKS"):
        (blocks / f"{name}.txt").write_text(text)
    assert text == (blocks / f"{name}.txt").read_text()


def test_no_block_is_longer_than_a_screen(scene) -> None:
    _, made = scene
    long = made.changed(more={**made.more, "tail": [f"line {number}" for number in range(90)]})
    now = made.document()["now"]
    found = long.document() | {"changed": [{"at": now, "text": f"x{n}", "times": 1} for n in range(99)]}
    assert len(block(found)) <= MOST


def test_line_one_says_what_and_line_two_whether_data_is_lost(scene) -> None:
    _, made = scene
    first, second, *rest = made.lines()
    assert re.match(r"flights is [A-Z]+ for .+, since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: .+", first)
    assert re.match(r"data lost\?   (NO|YES|AT RISK|NOT KNOWN): .+", second)
    assert any(line.startswith("next  ") for line in rest)


def test_lines_stand_in_one_order(scenes) -> None:
    seen: list[list[str]] = []
    for made in scenes.values():
        seen.append([word for line in made.lines()[1:] if (word := line[:13].strip())])
    order = sorted({word for words in seen for word in words}, key=lambda word: _ORDER.index(word))
    for words in seen:
        assert words == [word for word in order if word in words]


_ORDER = [
    "data lost?", "safe up to", "next batch", "at risk", "last commit", "lag", "skew", "rates", "batch", "event time",
    "state size", "restarts", "failure", "identity", "differs", "supervised", "no answer", "last 6 h", "spark ui",
    "log", "runbook", "incident", "next", "effect", "log tail",
]  # fmt: skip


def test_what_is_to_be_put_right_outside_ends_with_the_start(scenes) -> None:
    made = scenes["lost_checkpoint"]
    blocked = {**(made.stream.blocked or {}), "next": "create the topic"}
    lines = made.changed(stream=replace(made.stream, blocked=blocked)).lines()
    assert "next         create the topic; then: lakeward streams start flights" in lines


def test_trouble_that_is_over_is_reported_all_the_same(scenes) -> None:
    lines = scenes["healthy"].lines("At 03:00:00 UTC it was STALLED: no batch for 6 min")
    assert lines[0].startswith("flights: At 03:00:00 UTC it was STALLED: no batch for 6 min; now it is HEALTHY for")


def test_secrets_are_cut_out_wherever_they_come_from(scenes) -> None:
    made = scenes["poison"]
    dirty = "jdbc failed: postgresql://lakeward:hunter2@db/x password=hunter2 token: hunter2"
    blocked = dict(made.stream.blocked or {}) | {"what": dirty, "why": dirty, "next": f"echo {dirty}"}
    shown = made.changed(
        stream=replace(made.stream, blocked=blocked),
        sources=replace(made.sources, trouble=(dirty,)),
        more={**made.more, "recent": [replace(made.more["recent"][0], text=dirty)]},
    )
    assert "hunter2" not in "\n".join(shown.lines())
    assert "hunter2" not in str(shown.document())


def test_a_running_stream_whose_broker_does_not_answer_the_report_is_given_the_command_that_asks_again(scenes) -> None:
    made = scenes["healthy"]
    silent = "Kafka (lakeward_kafka) does not answer: brokers 127.0.0.1:9092"
    found = made.changed(sources=replace(made.sources, trouble=(silent,))).document()
    assert found["next"] == "lakeward stack status"
    assert found["next_text"] == f"lakeward stack status   shows whether this is over: {silent}"


def test_offsets_and_ids_can_be_searched_for(scenes) -> None:
    text = "\n".join(scenes["dead_driver"].lines())
    for word in ("seq 812", "flights/0: 12043", "5512860432156", "process 4711", "local-1763694582201"):
        assert word in text


def test_a_position_that_an_operation_moved_has_no_batch(scenes) -> None:
    seen = scenes["dead_driver"]
    moved = replace(seen.sources, position=seen.sources.position.model_copy(update={"batch": -1}))
    text = "\n".join(seen.changed(sources=moved).lines())
    assert "batch -1" not in text
    assert "seq 812" in text


def test_a_driver_that_is_down_does_not_catch_up(scenes) -> None:
    found = scenes["dead_driver"].document()
    assert found["lag_trend"] == "growing"
    assert found["catch_up_s"] is None


def test_a_skewed_partition_is_named_and_even_ones_are_not(scenes) -> None:
    assert any(line.startswith("skew         flights/0 has 600,000") for line in scenes["lagging"].lines())
    assert not any(line.startswith("skew") for line in scenes["dead_driver"].lines())


def test_that_nobody_looks_after_the_streams_is_said_in_every_block(scenes) -> None:
    lines = scenes["healthy"].changed(missed="no reconcile pass has succeeded for 7 min").lines()
    assert "supervised   NO: no reconcile pass has succeeded for 7 min" in lines
    assert lines[0].endswith("; NOT SUPERVISED")
    assert any(
        line.startswith("next         lakeward doctor   because supervision is missing: a failure") for line in lines
    )
    assert not any(line.startswith("supervised") for line in scenes["healthy"].lines())


@pytest.mark.parametrize(
    "offsets",
    [
        {"source": {"start": '{"f":{"0":5}}', "end": '{"f":{"0":9}}'}},
        {"start": {"source": '{"f":{"0":5}}'}, "end": {"source": '{"f":{"0":9}}'}},
    ],
)
def test_offsets_of_a_failed_batch_read_the_same_whoever_wrote_them(scenes, offsets) -> None:
    made = scenes["poison"]
    blocked = dict(made.stream.blocked or {}) | {"offsets": offsets}
    lines = made.changed(stream=replace(made.stream, blocked=blocked)).lines()
    assert "             in batch 812, offsets f/0: 5 to 9" in lines


def test_what_is_in_the_quarantine_is_not_said_to_be_in_the_table(scenes) -> None:
    made = scenes["dead_driver"]
    totals = Totals(consumed=24041, landed=23719, quarantined=322)
    sources = replace(made.sources, position=made.sources.position.model_copy(update={"totals": totals}))
    assert (
        "is in nyc.flights or its quarantine (322 records so far) exactly once"
        in made.changed(sources=sources).lines()[1]
    )


def test_a_driver_that_is_gone_and_not_buried_yet_has_no_ui_and_is_launched_again(scenes) -> None:
    made = scenes["healthy"].changed(process=Life.GONE, beside=("delay_alerts",))
    text = "\n".join(made.lines())
    assert "spark ui     none at the moment" in text
    assert "  effect     launches driver demo together with delay_alerts; no row lands twice" in text
    assert "no failure in 24 h before this one" in text
    assert made.changed(backend=False).document()["links"]["spark_ui"], "nobody could be asked: it may be there"


def test_a_driver_on_a_host_that_cannot_be_asked_has_a_way_out(scenes) -> None:
    good = scenes["healthy"]
    silent = replace(good.driver, heartbeat=good.stream.since, age_s=90.0)
    away = good.changed(process=Life.UNKNOWN, leased=False, driver=silent)
    give_up = "is gone for good: lakeward streams restart flights --kill"
    assert give_up in away.lines()[0]
    assert give_up in away.document()["next_text"]


def test_one_thing_or_the_other_is_not_one_after_the_other_and_a_dry_run_only_shows(scenes) -> None:
    made = scenes["poison"]
    step = "correct it (lakeward deploy), then: lakeward streams start flights; or give its records up: "
    step += "lakeward streams skip-batch flights --batch 812 --dry-run   shows them first"
    blocked = {**(made.stream.blocked or {}), "next": step}
    effect = made.changed(stream=replace(made.stream, blocked=blocked)).document()["next_effect"]
    first, second = effect.split("; or: ")
    assert re.match(r"registers changed files .+; then: replaces its query by the new generation", first)
    assert second.startswith("only shows what it would do; without --dry-run it skips all records of the batch")


def test_a_position_that_is_put_back_makes_no_new_checkpoint(scenes) -> None:
    made = scenes["poison"]
    step = "lakeward streams recover flights   puts back the position of the newest metadata file that has it"
    blocked = {**(made.stream.blocked or {}), "reason": "gap", "next": step}
    effect = made.changed(stream=replace(made.stream, blocked=blocked)).document()["next_effect"]
    assert effect.startswith("sets one property of the table, keeps the checkpoint, and starts its query")


def test_an_application_of_the_launch_before_is_not_shown_as_this_ones(scenes) -> None:
    made = scenes["healthy"]
    fresh = made.document()["driver"]
    assert fresh["app_id"]
    watch = {**made.seen.watch, "at": (fresh["launched_at"] - timedelta(seconds=1)).isoformat()}
    assert made.changed(seen=replace(made.seen, watch=watch)).document()["driver"]["app_id"] is None


def test_a_block_is_as_old_as_what_blocked_it_not_as_the_pass_that_noticed(scenes) -> None:
    made = scenes["poison"]
    at = made.document()["now"] - timedelta(seconds=75)
    blocked = {**(made.stream.blocked or {}), "at": at.isoformat()}
    first, *rest = made.changed(stream=replace(made.stream, blocked=blocked)).lines()
    assert first.startswith(f"flights is BLOCKED for 75 s, since {moment(at)}")
    assert any(line.startswith("failure      poison 75 s ago") for line in rest)


@pytest.mark.parametrize(
    ("scene", "comes", "words"),
    [
        ("dead_driver", 23.0, "it catches up after the restart"),
        ("dead_driver", 600.0, "after the restart it does not catch up at its previous rate"),
        ("poison", 600.0, "blocked: no data is written until the cause is fixed"),
    ],
)
def test_what_becomes_of_a_lag(scenes, scene, comes, words) -> None:
    made = scenes[scene]
    lag = replace(made.sources.lag, arriving_per_second=comes)
    (line,) = (each for each in made.changed(sources=replace(made.sources, lag=lag)).lines() if each.startswith("lag "))
    assert line.endswith(words)


def test_a_moment_that_is_not_known() -> None:
    assert moment(None) == "not known"


def test_a_handful_of_records_between_two_batches_is_no_trend_and_no_alarm(scenes) -> None:
    made = scenes["healthy"]
    watch = {**made.seen.watch, "lag_per_second": 0.3}
    few = replace(made.sources.lag, partitions=(replace(made.sources.lag.partitions[0], end=12043 + 46),), oldest_s=2.0)
    seen = replace(made.seen, watch=watch, lag_records=46, lag_s=2.0)
    (line,) = (
        each
        for each in made.changed(seen=seen, sources=replace(made.sources, lag=few)).lines()
        if each.startswith("lag ")
    )
    assert line == "lag          46 records wait, the oldest for 2 s, steady"
    old = replace(few, oldest_s=50.0)
    (line,) = (
        each
        for each in made.changed(seen=seen, sources=replace(made.sources, lag=old)).lines()
        if each.startswith("lag ")
    )
    assert "growing by 0.3/s" in line


def test_an_open_incident_says_what_it_is(scenes) -> None:
    made = scenes["healthy"]
    incident = replace(scenes["dead_driver"].more["incident"], text="The state of stream flights is large\nmore")
    (line,) = (each for each in made.changed(more={"incident": incident}).lines() if each.startswith("incident "))
    assert line.endswith(": The state of stream flights is large; it closes by itself when that is over")


def test_a_lag_of_which_one_source_is_silent_is_not_known(scenes) -> None:
    healthy_scene = scenes["healthy"]
    why = {"far": "Kafka does not answer: brokers far:1"}
    sources = healthy_scene.sources
    assert sources.lag is not None
    part = replace(sources.lag, partitions=(replace(sources.lag.partitions[0], end=12050),), unmeasured=why)
    made = healthy_scene.changed(sources=replace(sources, lag=part))
    text = "\n".join(made.lines())
    assert re.search(
        "^lag +not known: source far: Kafka does not answer: brokers far:1; at the other sources 7 records wait$",
        text, re.M,
    )  # fmt: skip
    assert re.search("^at risk +not known: source far: Kafka does not answer", text, re.M)
    document = made.document()
    assert (document["lag_records"], document["lag_s"], document["catch_up_s"]) == (None, None, None)
    assert (document["lag_at_least"], len(document["partitions"]), document["at_risk"]) == (7, 1, None)
    late = made.changed(sources=replace(sources, lag=replace(part, oldest_s=6.9 * 86_400)))
    assert late.document()["at_risk"] is True, "one source at risk is enough"
