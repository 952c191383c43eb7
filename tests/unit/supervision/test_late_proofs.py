"""One message when a proof is late, and its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakeward.quality.ranges.verification_lag import Lag
from lakeward.quality.results import incident
from lakeward.quality.results.status import ProofStatus
from lakeward.registry import incidents
from lakeward.spec.model.types import Duration
from lakeward.supervision.late_proofs import KIND, newest, watch

NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
PROOF = {"to_snapshot": 5, "at": NOW - timedelta(hours=1), "verdict": "pass", "note": ""}
WAITS = Lag(3, 1200, 6, NOW - timedelta(minutes=20))


def table(lag: Lag = WAITS, **more) -> ProofStatus:
    given = {"newest": PROOF, "proof": PROOF, "lag": lag, "limit": Duration("15m"), **more}
    return ProofStatus("nyc.flights", **given)


@pytest.fixture
def late(connected):
    """Looks at the tables so many minutes after `NOW`; the sentences, and the text of the open incident."""

    def look(minutes: int, *tables: ProofStatus) -> tuple[list[str], str | None]:
        with connected() as connection:
            told = watch(connection, tables, NOW + timedelta(minutes=minutes))
            found = incidents.open_ones(connection).get((KIND, "nyc.flights"))
        return told, found.text if found else None

    return look


def test_a_proof_that_stays_away_is_reported_once_and_so_is_its_end(late, connected) -> None:
    assert late(0, table()) == ([], None)
    told, text = late(16, table())
    assert told == [text.splitlines()[0]]
    assert text.splitlines() == [
        "nyc.flights: 3 commits, 1,200 rows not proven for 36 min, the limit is 15m; since snapshot 6 of "
        "2026-11-21 02:50:00 UTC",
        "readers of `verified` are on snapshot 5, proven 2026-11-21 02:10:00 UTC; the stream continues",
        "why: no check run has checked it since 2026-11-21 02:10:00 UTC",
        "do: lakeward quality run nyc.flights   and: lakeward stack status   is quality_check paused in Airflow?",
    ]
    assert late(21, table())[1] == text  # said already: no message again
    assert late(26, table(Lag())) == ([], None)
    with connected() as connection:
        assert len(incidents.pending(connection)) == 1


def test_what_is_not_proven_can_be_read_by_table(late, connected) -> None:
    with connected() as connection:
        assert newest(connection) == {}
    late(0, table())
    with connected() as connection:
        assert newest(connection) == {
            "nyc.flights": {
                "snapshots": 3, "rows": 1200, "since": "2026-11-21T02:50:00+00:00", "limit_s": 900.0, "error": "",
            }
        }  # fmt: skip
    late(1, table(Lag(), error="its metadata is cut"))
    with connected() as connection:
        (known,) = newest(connection).values()
        assert (known["since"], known["error"]) == (None, "its metadata is cut")


def test_a_run_that_could_not_check_is_the_reason(late) -> None:
    newest = {**PROOF, "verdict": "error", "note": "The connect server does not answer"}
    late(0, table(newest=newest))
    assert "could not check it: The connect server does not answer" in late(16, table(newest=newest))[1]
    late(17, table(Lag()))
    late(18, table(newest=None, proof=None))
    assert "why: no check run has ever checked it" in late(60, table(newest=None, proof=None))[1]


def test_a_table_that_a_check_holds_has_that_message_alone(late, connected) -> None:
    late(0, table())
    late(16, table())
    with connected() as connection:
        incidents.opened(connection, incident.KIND, "nyc.flights", "held")
    assert late(17, table()) == ([], None)


def test_what_could_not_be_looked_at_ends_nothing_and_a_suite_that_is_gone_does(late) -> None:
    late(0, table())
    text = late(16, table())[1]
    assert late(17, table(Lag(), error="the catalog does not answer"))[1] == text
    assert late(18) == ([], None)


def test_with_its_suite_every_incident_about_the_checks_of_a_table_ends(late, connected) -> None:
    """No run can pass or be released any more, so what they say to do next would be refused."""
    subjects = {("quality", "nyc.flights"), ("waiver", "nyc.flights/c1"), ("quality", "nyc.old"), ("stream", "nyc.old")}
    subjects |= {("waiver", "nyc.in/out/c1")}  # of the table `in/out`
    with connected() as connection:
        for kind, subject in [*subjects, ("waiver", "nyc.old/c1"), ("waiver", "nyc.flights/old/c1")]:
            incidents.opened(connection, kind, subject, "held")
    other = ProofStatus("nyc.in/out", newest=PROOF, proof=PROOF, lag=Lag(), limit=Duration("15m"))
    late(0, table(Lag(), error="its suite is invalid"), other)
    with connected() as connection:
        assert set(incidents.open_ones(connection)) == subjects - {("quality", "nyc.old")}
