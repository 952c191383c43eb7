"""`on_fail: quarantine` from a failing check to a moved `verified`: killed, beside rows that land, twice at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from replay_rig import Died, at, deployed, die

from lakeward.cli.streams.audit import audit
from lakeward.operations.quarantine import remove
from lakeward.operations.quarantine.policy import Policy
from lakeward.platform.runtime import Home, Project, Runtime
from lakeward.quality import check
from lakeward.quality.ranges import metadata
from lakeward.quality.resident.serve import Resident
from lakeward.registry import changes, events, incidents, verifications
from lakeward.registry.engine import connect
from lakeward.spec.model.stream import StreamSpec
from lakeward.spec.read.loader import load_project
from lakeward.telemetry import failpoints

pytestmark = [
    pytest.mark.timeout(1200),  # a bound for a hang; a busy machine may need minutes
    # Great Expectations warns of itself; elsewhere it has a process of its own.
    *(pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "UserWarning", "FutureWarning")),
]


@dataclass
class Quality:
    """A landed table with a suite, a checker, and its policy."""

    lab: Any
    home: Home
    project: Project
    topic: str
    document: dict[str, Any]
    told: list[str] = field(default_factory=list)
    landed: int = 0

    @property
    def table(self) -> str:
        return f"{self.lab.namespace}.t"

    @property
    def runtime(self) -> Runtime:
        return Runtime.load(self.home.runtime_file)

    @property
    def url(self) -> str:
        return self.home.registry_url_file.read_text()

    def registry(self) -> Any:
        return connect(self.url, self.runtime.pgpass)

    def suite(self, most: int) -> None:
        (self.project.expectations / f"{self.table}.yaml").write_text(
            f"table: {self.table}\nowner: me\nexpectations:\n"
            "  - type: expect_column_values_to_be_between\n"
            f"    kwargs: {{column: n, min_value: 0, max_value: {most}}}\n    on_fail: quarantine\n"
        )

    def land(self, good: int, *bad: int) -> None:
        """Rows come and land: by one stream that goes on running, to the end of the test."""
        self.lab.produce(self.topic, [{"n": n, "s": "x"} for n in [*(each % 60 for each in range(good)), *bad]])
        if not self.landed:
            self.lab.start(self.document)
        self.landed += good + len(bad)
        self.lab.until("the rows", lambda: sum(done.consumed for done in self.lab.done) >= self.landed)

    def check(self) -> dict[str, Any]:
        (found,) = check(self.runtime, self.url, self.project, [self.table], emit=lambda level, text, fields: None)
        return found

    def policy(self) -> Policy:
        self.told.clear()
        return Policy(
            load_project(self.project).suites[self.table], self.registry, self.url, self.runtime, self.project,
            opens=lambda streams: nullcontext(self.lab.spark),
            emit=lambda level, text, fields: self.told.append(text),
        )  # fmt: skip

    def carried_out(self, step: str = "", nth: int = 1, hook: Callable[[], Any] = die) -> dict[str, Any]:
        """What the policy makes of the newest run, while something happens at a step of it."""
        with failpoints.on(step, at(nth, hook)) if step else nullcontext():
            return self.policy().carry_out()

    @property
    def counted(self) -> tuple[int, ...]:
        """Landed, quarantined, missing, duplicates."""
        found = audit(self.lab.runtime, StreamSpec.model_validate(self.document))
        return tuple(found[name] for name in ("landed", "quarantined", "missing", "duplicates"))

    @property
    def refs(self) -> tuple[int | None, int | None]:
        """Main and `verified`."""
        now = metadata.history(metadata.catalog(self.runtime), self.table)
        return now.head, now.verified


@pytest.fixture
def quality(lab: Any, postgres: Any, connect_server: Runtime, monkeypatch: pytest.MonkeyPatch) -> Iterator[Quality]:
    """Sixty good rows, landed, checked and proven; with a checker that serves the runs."""
    monkeypatch.setenv("GX_ANALYTICS_ENABLED", "false")
    topic = lab.topic()
    mine = ("connect", "connect_token_file", "pgpass")
    lab.runtime = lab.runtime.model_copy(update={each: getattr(connect_server, each) for each in mine})
    document = lab.spec(topic, lineage="rows")
    project = Project(lab.folder / "project")
    for folder in (project.streams, project.expectations):
        folder.mkdir(parents=True)
    made = Quality(lab, Home(deployed(lab, postgres, document)), project, topic, document)
    made.suite(100)
    resident = Resident(made.home, project)
    thread = threading.Thread(target=resident.serve)
    thread.start()
    try:
        made.land(60)
        assert made.check()["verdict"] == "pass"
        yield made
    finally:
        resident.stop()
        thread.join()


@pytest.mark.campaign(
    held_by="tests/unit/quality/verdicts/test_quarantine_policy.py::test_the_few_failing_rows_of_all_that_holds_go"
)
def test_few_bad_rows_go_to_quarantine_the_rest_is_proven_people_hear_of_it_once_and_many_are_for_a_person(
    quality: Quality, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Killed between the removal and the second check: the next run goes on, and says what went.
    quality.land(57, 500, 600, 9000)
    held = quality.check()
    assert held["verdict"] == "hold" and quality.policy().due(held)
    with pytest.raises(Died):
        quality.carried_out("removal-settled")
    assert quality.counted == (117, 3, 0, 0)
    again = quality.check()
    said = f"3 rows that fail column_values_to_be_between(n) moved from {quality.table} to"
    assert again["verdict"] == "pass" and said in again["note"] and held["run"] in again["note"]
    assert quality.refs == (again["to_snapshot"],) * 2
    with quality.registry() as connection:
        (change,) = changes.newest(connection, "table", quality.table)
        (message,) = incidents.pending(connection)
        recorded = {each["run"]: each["verdict"] for each in verifications.newest(connection, quality.table)}
    assert (recorded[held["run"]], recorded[again["run"]]) == ("hold", "pass")
    assert (change.author, change.detail["moved"]) == (f"expectations/{quality.table}.yaml", 3)
    assert message.closed_at is not None and said in message.text, "one message tells all of it"

    # Bad rows land while it acts: they go in a second round; those after it are the next run's, and stop nothing.
    quality.land(58, 700, 800)
    assert quality.check()["verdict"] == "hold"
    # The first of them between its look at the table and its look at the rows: they are records of the stream's, too.
    later = [lambda: quality.land(1, 850), lambda: quality.land(1, 901), lambda: quality.land(1, 902)]

    def meanwhile() -> None:
        if later:
            later.pop(0)()

    made = remove.quarantine.create

    def make(*given: Any) -> None:
        made(*given)
        meanwhile()

    with monkeypatch.context() as patched, failpoints.on("removal-settled", at(2, meanwhile)):
        patched.setattr(remove.quarantine, "create", lambda *given: (patched.undo(), make(*given)))
        done = quality.carried_out("removal-copied", 1, meanwhile)
    assert not later
    assert done["verdict"] == "pass", quality.told
    assert quality.counted == (quality.landed - 7, 7, 0, 0)
    head, verified = quality.refs
    assert verified == done["to_snapshot"] != head, "up to where the rows were taken out, not what landed since"

    # More than one in ten is for a person: it stays with what landed last, and that is said where people look.
    quality.land(20, *range(200, 212))
    held = quality.check()
    left = quality.carried_out()
    why = "13 of 34 rows fail: more than one in 10 needs a person's decision"
    assert (left["run"], left["verdict"]) == (held["run"], "hold")
    with quality.registry() as connection:
        message = incidents.open_ones(connection)["quality", quality.table].text
        told = events.newest_of_kind(connection, "table", "quarantine_left", quality.table)[quality.table].text
    assert all(why in each for each in (left["note"], message, told, quality.told[-1]))
    assert quality.counted == (quality.landed - 7, 7, 0, 0)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_quarantine_removal.py::"
    "test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
)
def test_of_two_at_once_the_one_that_began_last_goes_on(quality: Quality) -> None:
    """It takes out what was left; the other one changes nothing and says so."""
    quality.land(59, 1000)
    assert quality.check()["verdict"] == "hold"
    inner: list[dict[str, Any]] = []
    outer = quality.carried_out("removal-copied", 1, lambda: inner.append(quality.policy().carry_out()))
    assert inner[0]["verdict"] == "pass" and outer["run"] == inner[0]["run"]
    assert quality.counted == (quality.landed - 1, 1, 0, 0)


@pytest.mark.campaign(
    held_by="tests/spark/driver/test_quarantine_removal.py::"
    "test_failing_rows_go_to_quarantine_once_wherever_it_dies_and_land_again_when_mended"
)
def test_rows_that_readers_have_already_are_for_a_person(quality: Quality) -> None:
    """Of a check that is new, proven rows fail too: they would hold the table from the removal on."""
    quality.suite(58)
    quality.land(200)
    assert quality.check()["verdict"] == "hold"
    assert "proven rows fail the check too" in quality.carried_out()["note"]
    assert quality.counted == (260, 0, 0, 0) and quality.refs[0] != quality.refs[1]
