from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from openlineage_events import validated

from lakeward.lineage.datasets import Addresses
from lakeward.lineage.stream_events import Cursor, Facts, Step, plan
from lakeward.registry.batches import Batch
from lakeward.registry.generations import Generation

BEGIN = datetime(2026, 11, 1, 6, tzinfo=UTC)
EVERY = timedelta(minutes=5)
ADDRESSES = Addresses(
    brokers=lambda _: "k1:9092",
    postgres=lambda _: None,
    catalog="lake",
    locations={"nyc.flights": "s3://lake/nyc/flights", "nyc.bad": "s3://lake/nyc/bad"},
    formats={"nyc.flights": "iceberg", "nyc.bad": "iceberg"},
)


def generation(number: int = 1) -> Generation:
    spec = {
        "id": "flights",
        "owner": "data-platform",
        "sources": {"source": {"kafka": {"topics": ["flights"]}, "decode": {"json": "carrier STRING, dep DOUBLE"}}},
        "transform": {"sql": "SELECT carrier, dep + 1 AS d FROM source"},
        "sink": {"iceberg": {"table": "nyc.flights"}},
        "quarantine": {"table": "nyc.bad"},
    }
    return Generation(
        "flights", number, spec, f"digest{number}", None, {}, {"pyspark": "4.1.3"}, "ada", "c", BEGIN, None
    )


def batch(number: int, *, of: int = 1, query: str = "q1", landed: int | None = 10) -> Batch:
    offsets = [f'{{"flights":{{"0":{number * 10}}}}}', f'{{"flights":{{"0":{number * 10 + 10}}}}}']
    return Batch(
        "flights", query, number, number + 1, of, 1000 + number, {"source": offsets[0]}, {"source": offsets[1]}, 10,
        landed, 1, 0, None, None, 2.0, None, None, False, None, BEGIN + timedelta(seconds=10 * number),
    )  # fmt: skip


def facts(*batches: Batch, state: str = "healthy", now: timedelta = EVERY, why: str = "") -> Facts:
    return Facts("flights", state, why, batches, {1: generation(1), 2: generation(2)}, BEGIN + now)


def step(given: Facts, cursor: Cursor | None = None, addresses: Addresses = ADDRESSES) -> Step:
    planned = plan(given, cursor, addresses, "lakeward", EVERY)
    for event in planned.events:
        validated(event)
    return planned


def kinds(planned: Step) -> list[str]:
    return [event.eventType.value for event in planned.events if event.eventType is not None]


def test_the_first_batch_starts_a_run_and_names_offsets_snapshot_and_columns() -> None:
    planned = step(facts(batch(0), batch(1)))
    assert kinds(planned) == ["START", "RUNNING"]
    start, running = map(validated, planned.events)
    assert start["eventTime"] == "2026-11-01T05:59:58+00:00"
    assert start["run"]["runId"] == running["run"]["runId"]
    assert running["eventTime"] == "2026-11-01T06:00:10+00:00"
    assert running["job"]["name"] == "flights"
    assert running["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert running["job"]["facets"]["lakeward_generation"]["generation"] == 1
    assert {key: running["run"]["facets"]["lakeward_batches"][key] for key in ("batches", "fromSeq", "toSeq")} == {
        "batches": 2, "fromSeq": 1, "toSeq": 2,
    }  # fmt: skip
    (topic,) = running["inputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://k1:9092", "flights")
    offsets = topic["inputFacets"]["lakeward_offsets"]
    assert (offsets["start"], offsets["end"]) == ({"0": 0}, {"0": 20})
    table, quarantine = running["outputs"]
    assert (table["namespace"], table["name"]) == ("s3://lake", "nyc/flights")
    assert table["facets"]["symlinks"]["identifiers"][0]["name"] == "nyc.flights"
    assert table["facets"]["version"]["datasetVersion"] == "1001"
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 20
    assert quarantine["outputFacets"]["outputStatistics"]["rowCount"] == 2
    made_from = table["facets"]["columnLineage"]["fields"]
    assert [item["field"] for item in made_from["d"]["inputFields"]] == ["dep"]
    assert made_from["carrier"]["inputFields"][0]["name"] == "flights"


def test_late_records_that_are_kept_are_an_output() -> None:
    first = generation()
    kept = replace(first, spec={**first.spec, "late": {"table": "nyc.late"}})
    addresses = replace(
        ADDRESSES,
        locations={**ADDRESSES.locations, "nyc.late": "s3://lake/nyc/late"},
        formats={**ADDRESSES.formats, "nyc.late": "iceberg"},
    )
    late = [replace(batch(number), late_dropped=number) for number in (1, 2)]
    given = replace(facts(*late), generations={1: kept})
    _, running = map(validated, step(given, addresses=addresses).events)
    assert [each["name"] for each in running["outputs"]] == ["nyc/flights", "nyc/bad", "nyc/late"]
    assert running["outputs"][2]["outputFacets"]["outputStatistics"]["rowCount"] == 3


def test_a_running_stream_has_one_event_an_interval_which_covers_all_batches_in_between() -> None:
    first = step(facts(batch(0)))
    early = step(facts(batch(1), now=EVERY + timedelta(minutes=4)), first.cursor)
    assert early == Step((), first.cursor)
    due = step(facts(batch(1), batch(2), now=EVERY * 2), first.cursor)
    assert kinds(due) == ["RUNNING"]
    assert validated(due.events[0])["run"]["facets"]["lakeward_batches"]["batches"] == 2
    assert due.events[0].run.runId == first.events[0].run.runId


def test_a_new_generation_and_a_new_checkpoint_end_one_run_and_start_the_next_at_once() -> None:
    first = step(facts(batch(0)))
    planned = step(facts(batch(1), batch(2, of=2), batch(3, of=2, query="q2"), now=EVERY), first.cursor)
    assert kinds(planned) == ["RUNNING", "COMPLETE", "START", "RUNNING", "COMPLETE", "START", "RUNNING"]
    runs = [event.run.runId for event in planned.events]
    assert len(set(runs)) == 3
    assert runs[0] == first.events[0].run.runId
    assert planned.cursor is not None
    assert (planned.cursor.generation, planned.cursor.query_id, planned.cursor.run) == (2, "q2", runs[-1])


def test_a_stop_completes_the_run_with_its_last_batches_and_a_later_start_is_another_run() -> None:
    first = step(facts(batch(0)))
    stopped = step(facts(batch(1), state="stopped", now=EVERY + timedelta(seconds=30)), first.cursor)
    assert kinds(stopped) == ["RUNNING", "COMPLETE"]
    assert step(facts(state="stopped"), stopped.cursor).events == ()
    again = step(facts(batch(2), now=EVERY * 2), stopped.cursor)
    assert kinds(again) == ["START", "RUNNING"]
    assert again.events[0].run.runId != first.events[0].run.runId


def test_a_blocked_stream_fails_its_run_with_the_reason() -> None:
    first = step(facts(batch(0)))
    blocked = step(facts(state="blocked", why="offsets 5 to 9 of flights-0 are gone"), first.cursor)
    assert kinds(blocked) == ["FAIL"]
    message = validated(blocked.events[0])["run"]["facets"]["errorMessage"]["message"]
    assert message == "offsets 5 to 9 of flights-0 are gone"


def test_the_same_facts_give_the_same_events() -> None:
    given = facts(batch(0), batch(1))
    assert [validated(event) for event in step(given).events] == [validated(event) for event in step(given).events]


def test_rows_that_were_not_counted_are_not_given() -> None:
    planned = step(facts(batch(0), batch(1, landed=None)))
    table = validated(planned.events[1])["outputs"][0]
    assert table["outputFacets"] == {}


def test_nothing_is_sent_under_a_name_that_is_not_known_yet() -> None:
    unknown = replace(ADDRESSES, locations={})
    planned = step(facts(batch(0)), None, unknown)
    assert planned.events == ()
    assert planned.waits_for == "the address of sink is not known yet"
    assert planned.cursor is None


def test_a_generation_that_was_removed_costs_its_events_only() -> None:
    given = replace(facts(batch(0), batch(1, of=2)), generations={2: generation(2)})
    assert kinds(step(given)) == ["START", "RUNNING"]


def test_a_cursor_is_read_as_it_was_stored() -> None:
    cursor = step(facts(batch(0))).cursor
    assert cursor is not None
    assert Cursor.read(cursor.document()) == cursor
