"""What helps: for every state, every reason of a block and every shape of a stream, a command that can be typed."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from typed import commands, parsed

from lakeward.platform.failures import Cause
from lakeward.spec.model.stream import StreamSpec
from lakeward.supervision.decide.health import State
from lakeward.supervision.decide.remedy import OF_THE_TABLE, Situation, of_block, remedy
from lakeward.supervision.decide.repeated import OF_THE_STREAM, next_step
from lakeward.supervision.presence import Presence
from lakeward.supervision.presence import State as Supervised

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
PLACEHOLDER = re.compile(r"\b(?:CHECK|STREAM|NAMESPACE|WHY|N)\b|<[a-z]+>|\.\.(?!/)")
START = "lakeward streams start flights"
UPGRADE = "lakeward streams upgrade flights --wait"
SKIP = 'lakeward streams skip-batch flights --batch 7 --comment "batch 7 fails"'
RECOVER = "lakeward streams recover flights"
RENEW_BEFORE = "give the stream a new id and a new table (conf/streams/flights.yaml), then: lakeward deploy"
RENEW = f"{RENEW_BEFORE} --retire flights"
TRANSFORM = f"correct the transform in conf/streams/flights.yaml, then: lakeward deploy; {UPGRADE}"
SET_BACK = "lakeward sql --write \"CALL lake.system.set_current_snapshot('nyc.flights', 551)\"   restores the rows"
REASONS: dict[str, str] = {
    "poison": f"{TRANSFORM}; or skip its records: {SKIP}   shows them and asks",
    "config": f"correct it, then: {START}",
    "state-unfit": "lakeward streams rollback flights   runs the previous generation, which can use the state",
    "checkpoint-missing": f"{RECOVER}   continues at the table's position",
    "checkpoint-truncated": "its batch never finished: remove /lake/c/offsets/3 (and .3.crc) and start",
    "foreign-checkpoint": f"{RECOVER}   continues at the table's position; or put the right folder back",
    "older-checkpoint": RECOVER,
    "gap": RECOVER,
    "diverged": RECOVER,
    "rolled-back": SET_BACK,
    "table-replaced": RENEW_BEFORE,
    "table-missing": f"lakeward sql --write \"CALL lake.system.register_table(table => 'nyc.flights', metadata_file => "
    f"'/w/3-a.metadata.json')\"   restores it with all its rows; or {RENEW_BEFORE}",
    "quarantine-missing": "lakeward sql --write 'CREATE TABLE lake.nyc.q (`stream` STRING) USING iceberg PARTITIONED "
    f"BY (`stream`)'   gives them up; then: {START}; or restore the table from a backup, then: {START}",
    "wap-off": "lakeward sql --write \"ALTER TABLE lake.nyc.flights SET TBLPROPERTIES ('a'='true')\"   then: " + START,
    "source-expired": 'lakeward streams reset flights --to available --comment "records expired"   continues',
    "source-rewritten": "set skip: [delete] at source source in conf/streams/flights.yaml, then: lakeward deploy",
    "topic-replaced": RENEW_BEFORE,
    "unstaged": "lakeward sql --write \"CALL lake.system.rollback_to_snapshot('nyc.flights', 5)\"   removes the batch",
    "no-position": f"{RECOVER}   puts back the position of the newest metadata file that has it",
    "changed-sources": "put the sources back as they were in conf/streams/flights.yaml and lakeward deploy; or give "
    "the stream a new id and a new table",
    "source-rolled-back": "roll the table forward, or give the stream a new id and a new table",
    "expired-unseen": "lakeward streams audit flights   shows whether rows are missing; if none is, then: " + START,
    "renamed-stream": "give it the id before again (id: before in its file), then: lakeward deploy --retire flights; "
    "or if both are meant: lakeward sql --write \"ALTER TABLE lake.nyc.f UNSET TBLPROPERTIES ('lakeward.b')\"",
    "unheard-of": "",
}
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"lineage": "rows"},
    "windows": {
        "lineage": "none",
        "transform": {"sql": "SELECT window(t, '1 minute') w, count(*) n FROM source GROUP BY window(t, '1 minute')"},
    },
    "plain": {"lineage": "rows", "sink": {"console": {}}},
}
PRESENT = {
    "ok": Presence(Supervised.OK),
    "stale": Presence(Supervised.STALE, NOW, "no reconcile pass has succeeded for 9 min", "lakeward doctor"),
    "never": Presence(Supervised.NEVER, NOW, "no pass ever", "lakeward init --dags ."),
}


def spec(shape: str) -> StreamSpec:
    base: dict[str, Any] = {
        "id": "flights", "owner": "ops", "source": {"kafka": {"topics": ["flights"]}},
        "sink": {"iceberg": {"table": "nyc.flights"}},
    }  # fmt: skip
    return StreamSpec.model_validate({**base, **SHAPES[shape]})


def block(reason: str) -> dict[str, Any]:
    return {"reason": reason, "what": "w", "why": "y", "next": REASONS[reason]}


def help_for(reason: str, shape: str = "rows", **more: Any) -> str:
    return of_block("flights", block(reason), spec=spec(shape), **more)


@pytest.mark.parametrize(
    ("reason", "shape", "pending", "present"), list(itertools.product(REASONS, SHAPES, (None, 3), PRESENT))
)
def test_a_blocked_stream_gets_commands_that_can_be_typed_and_end_with_it_running(
    reason, shape, pending, present
) -> None:
    seen = Situation("flights", State.BLOCKED, block(reason), spec(shape), pending=pending, presence=PRESENT[present])
    found = remedy(seen)
    typed = commands(found.text)
    assert typed
    for command in typed:
        parsed(command)
    assert not PLACEHOLDER.search(found.text), found.text
    assert present == "ok" or PRESENT[present].next in found.text
    if shape != "rows" and reason != "no-position":
        assert not any(f"streams {word}" in found.text for word in ("recover", "skip-batch", "reset"))
    for way in re.split(r"; or ", found.text):
        assert re.search(r"streams (start|upgrade|recover|skip-batch|reset|rollback|status)|lakeward deploy", way)


@pytest.mark.parametrize(("state", "pending", "present"), list(itertools.product(State, (None, 3), PRESENT)))
def test_each_state_gets_a_step_that_can_be_typed(state, pending, present) -> None:
    blocked = block("poison") if state is State.BLOCKED else None
    found = remedy(Situation("flights", state, blocked, spec("rows"), pending=pending, presence=PRESENT[present]))
    for command in commands(found.text):
        parsed(command)
    assert not PLACEHOLDER.search(found.text)
    if present != "ok" and state not in (State.STOPPED, State.STOPPING, State.COMPLETED, State.UNKNOWN):
        assert PRESENT[present].next in found.text
        assert found.text != "nothing to do"


@pytest.mark.parametrize("late", ["its watermark is 3 h ahead of the clock", "60% of the rows of 4 batches were late"])
def test_a_stream_that_drops_rows_as_late_gets_a_way_out(late: str) -> None:
    found = remedy(Situation("flights", State.LAGGING, spec=spec("windows"), late=late))
    assert commands(found.text)[0] == "lakeward deploy"
    for command in commands(found.text):
        parsed(command)
    assert "max_ahead" in found.text if "clock" in late else UPGRADE in found.text
    alone = remedy(Situation("flights", State.LAGGING, spec=spec("windows"), late=late, presence=PRESENT["stale"]))
    assert alone.text.startswith(f"{found.text}; and since supervision is missing")
    assert alone.command == found.command


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"iceberg": {"table": "nyc.flights"}}, RENEW),
        ({"files": {"path": "/data/out", "format": "json"}}, RENEW.replace("a new table", "a new folder")),
        ({"kafka": {"topic": "out"}}, RENEW.replace(" and a new table", "")),
    ],
)
def test_a_new_id_comes_with_what_the_sink_has(sink: dict[str, Any], told: str) -> None:
    seen = StreamSpec.model_validate({**spec("rows").document(), "sink": sink})
    assert of_block("flights", {"reason": "topic-replaced", "next": RENEW_BEFORE}, spec=seen) == told


@pytest.mark.parametrize("cause", sorted(OF_THE_STREAM))
def test_an_error_that_must_repeat_names_what_to_change_and_the_upgrade(cause: Cause) -> None:
    told = of_block("flights", {"reason": "config", "next": next_step(cause, "flights")}, spec=spec("windows"))
    assert told == next_step(cause, "flights")
    assert told.endswith(f"lakeward deploy; {UPGRADE}")
    for command in commands(told):
        parsed(command)


def test_nobody_restarts_a_dead_stream_so_its_step_does_not_say_wait() -> None:
    alone = remedy(Situation("flights", State.RESTARTING, presence=PRESENT["stale"]))
    assert alone.command == f"{START} --wait"
    assert "wait for the automatic" not in alone.text
    assert "wait for the automatic" in remedy(Situation("flights", State.RESTARTING)).text


@pytest.mark.parametrize("state", [State.STARTING, State.RESTARTING, State.STALLED])
@pytest.mark.parametrize("present", PRESENT)
def test_a_stream_whose_dependency_is_down_is_not_started_and_not_given_another_id(state: State, present: str) -> None:
    # Other brokers at the address of those that are down have no such topic: that is no topic which was deleted.
    seen = Situation("flights", state, spec=spec("rows"), presence=PRESENT[present], deleted="flights",
                     down="Kafka (a) does not answer: brokers b:9092: refused")  # fmt: skip
    found = remedy(seen)
    assert found.command == "lakeward stack status"
    assert found.text.startswith(f"{found.command}   it starts by itself when this is over: Kafka (a) does not answer")
    assert present == "ok" or PRESENT[present].next in found.text
    for command in commands(found.text):
        parsed(command)
    assert remedy(Situation("flights", State.STOPPED, down="Kafka (a) does not answer")).command == START
    other = Situation("flights", state, down="YARN does not answer", down_next="lakeward doctor")
    assert remedy(other).command == "lakeward doctor"


@pytest.mark.parametrize("state", [State.HEALTHY, State.LAGGING])
def test_a_running_stream_whose_dependency_is_down_is_not_called_right(state: State) -> None:
    seen = Situation("flights", state, down="Kafka (a) does not answer", late="its watermark is ahead of the clock")
    found = remedy(seen)
    assert found.command == "lakeward stack status"
    assert found.text == "lakeward stack status   shows whether this is over: Kafka (a) does not answer"
    unsupervised = remedy(replace(seen, presence=PRESENT["never"]))
    assert unsupervised.text.startswith(f"{found.text}; and since supervision is missing")
    # A rejected record whose table is missing has a command of its own.
    assert remedy(replace(seen, quarantine_next="lakeward tables restore q")).command == "lakeward tables restore q"


def test_a_generation_that_waits_is_upgraded_to_and_not_passed_over() -> None:
    assert help_for("poison", pending=2).startswith(f"{UPGRADE}   runs generation 2, which waits; or ")
    assert help_for("config", pending=2).startswith(UPGRADE)
    assert "upgrade" not in help_for("checkpoint-missing", pending=2)


def test_a_stream_under_a_new_id_goes_back_to_the_old_one_and_lands_nothing_again() -> None:
    first, second = help_for("renamed-stream").split("; or ")
    assert first.endswith("then: lakeward deploy --retire flights")  # a start here would land every record again
    assert (second.startswith("if both are meant: lakeward sql"), second.endswith(f"; then: {START}")) == (True, True)


def test_a_deploy_of_the_same_stream_is_followed_by_its_upgrade_and_a_deploy_of_another_one_is_not() -> None:
    assert help_for("source-rewritten").endswith(f"lakeward deploy; {UPGRADE}")
    old = f"correct the transform (lakeward deploy), then: {START}; or skip its records: {SKIP}"
    told = of_block("flights", {"reason": "poison", "next": old}, spec=spec("rows"))
    assert told.startswith(f"{TRANSFORM}; or ")
    assert "upgrade" not in help_for("topic-replaced")


def test_a_stream_that_keeps_state_is_not_sent_to_what_refuses_it() -> None:
    told = help_for("checkpoint-missing", "windows")
    assert told == f"restore the checkpoint from a copy, then: {START}; or {RENEW}"
    assert help_for("poison", "windows") == TRANSFORM
    assert help_for("foreign-checkpoint", "windows") == f"put the right folder back; then: {START}"
    assert help_for("checkpoint-missing", "rows").startswith(RECOVER)


@pytest.mark.parametrize("reason", ["source-expired", "topic-added-late"])
def test_no_copy_of_a_checkpoint_brings_expired_records_back(reason: str) -> None:
    told = f'lakeward streams reset flights --to available --comment "x"   continues; or {RENEW_BEFORE}'
    assert of_block("flights", {"reason": reason, "next": told}, spec=spec("windows")) == RENEW
    only = told.split("; or ")[0]
    assert of_block("flights", {"reason": reason, "next": only}, spec=spec("windows")) == RENEW
    assert of_block("flights", {"reason": reason, "next": told}, spec=spec("rows")).startswith("lakeward streams reset")


def test_a_hold_is_lifted_by_a_start_and_not_waited_for() -> None:
    held = Situation("flights", State.RESTARTING, held="2030-01-01 00:00 UTC")
    assert remedy(held).text == f"{START} --wait   lifts the hold: nothing restarts it before 2030-01-01 00:00 UTC"


@pytest.mark.parametrize("shape", ["rows", "windows"])
@pytest.mark.parametrize("reason", ["no-position", "position-unreadable"])
def test_a_position_is_put_back_for_every_shape(reason: str, shape: str) -> None:
    stored = {"reason": reason, "next": REASONS["no-position"]}
    assert of_block("flights", stored, spec=spec(shape)).startswith(f"{RECOVER}   puts back")


def test_another_id_is_deployed_and_the_old_one_is_retired_and_not_started() -> None:
    assert help_for("topic-replaced") == RENEW
    assert of_block("flights", {"reason": "topic-replaced", "next": RENEW}, spec=spec("rows")) == RENEW
    assert help_for("source-rolled-back").endswith(f"; or {RENEW}")
    assert help_for("changed-sources").endswith(f"; or {RENEW}")


def test_the_last_step_of_several_is_reported() -> None:
    assert help_for("rolled-back") == f"{SET_BACK}; then: {START}"
    assert help_for("checkpoint-truncated").endswith(f"and start; then: {START}")
    assert help_for("rolled-back").count("streams start") == 1


def test_the_end_that_several_changes_share_follows_each_of_them() -> None:
    stored = {"reason": "config", "next": "add a rule to its file: rules: {a: 'b'}, or change c; then: lakeward deploy"}
    step = f"then: lakeward deploy; {UPGRADE}"
    assert of_block("flights", stored, spec=spec("rows")) == (
        f"add a rule to its file: rules: {{a: 'b'}}; {step}; or change c; {step}"
    )
    waits = of_block("flights", stored, spec=spec("rows"), pending=2)
    assert waits == f"{UPGRADE}   runs generation 2, which waits; or change c; {step}"


def test_a_way_with_a_command_of_its_own_keeps_it() -> None:
    assert help_for("quarantine-missing") == REASONS["quarantine-missing"]


@pytest.mark.parametrize("reason", sorted(OF_THE_TABLE))
def test_a_table_that_has_everything_again_leaves_a_start(reason) -> None:
    told = of_block("flights", {"reason": reason, "next": SET_BACK}, spec=spec("rows"), cured=True)
    assert told == START


def test_the_table_as_it_is_now_decides_and_not_as_it_was_when_the_stream_was_blocked() -> None:
    now = SET_BACK.replace("551", "552")
    assert help_for("rolled-back", table_next=now) == f"{now}; then: {START}"


def test_a_spec_that_cannot_be_read_offers_what_was_stored() -> None:
    assert of_block("flights", block("gap")) == RECOVER
