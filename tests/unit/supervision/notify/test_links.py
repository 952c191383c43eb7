"""Every message leads to the page, to the run and to its section of the runbook: over all kinds of incidents."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lakeward.airflow import names
from lakeward.registry.incidents import Incident
from lakeward.supervision import page_links
from lakeward.supervision.decide.health import State
from lakeward.supervision.notify.channel import links_of, words

ROOT = Path(__file__).parents[4]
RUNBOOK = (ROOT / page_links.RUNBOOK).read_text()
KINDS = set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", RUNBOOK.partition("## Incidents")[2], flags=re.MULTILINE))
"""As the runbook lists them; a test of the runbook compares them with the code."""
AIRFLOW, DOCS = "https://air.example.com/", "https://git.example.com/lake/blob/main"
DAGS = {
    names.RECONCILE, names.QUALITY, names.stream_dag_id("flights"),
}  # fmt: skip


def incident(kind: str, *streams: str, **fields: object) -> Incident:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    subject = (
        "nyc.flights" if kind in ("quality", "verification_lag") else "nyc.flights/c1" if kind == "waiver" else "x"
    )
    return Incident(7, kind, subject, at, "it is so", {"streams": list(streams), **fields}, at, None, None)


def anchors() -> set[str]:
    headings = re.findall(r"^#+ (.+)$", RUNBOOK, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_kinds_are_all_that_the_runbook_lists() -> None:
    assert len(KINDS) >= 10


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("streams", [(), ("flights",), ("flights", "delays")], ids=["none", "one", "two"])
def test_each_kind_leads_to_the_page_the_run_and_the_runbook(kind: str, streams: tuple[str, ...]) -> None:
    found = incident(kind, *streams, state="blocked")
    links = links_of(found, AIRFLOW, DOCS)
    page = urlsplit(links["page"])
    assert page.path == "/plugin/lakeward"
    tab = parse_qs(page.query)["tab"]
    assert tab == (["quality"] if kind in ("quality", "waiver", "verification_lag") else ["streams"])
    dag = re.fullmatch(r"https://air\.example\.com/dags/([\w]+)/runs", links["run"])
    assert dag is not None and dag[1] in DAGS
    address, _, anchor = links["runbook"].partition("#")
    assert address == f"{DOCS}/{page_links.RUNBOOK}"
    assert anchor in anchors()
    assert set(words(found, AIRFLOW, DOCS).splitlines()[-3:]) == {
        f"runbook: {links['runbook']}", f"run: {links['run']}", links["page"],
    }  # fmt: skip


def test_an_ended_waiver_leads_to_its_table_whatever_the_name() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    found = Incident(7, "waiver", "nyc.in/out/c1", at, "it is so", {"streams": []}, at, None, None)
    assert page_links.place(found) == ("quality", "nyc.in/out")


@pytest.mark.parametrize("state", sorted(each.value for each in State))
def test_the_incident_of_a_stream_leads_to_the_section_of_its_state(state: str) -> None:
    assert page_links.runbook_of(incident("stream", "flights", state=state)).endswith(f"#{state}")
    assert state in anchors()


def test_a_late_operation_leads_to_its_own_run_of_the_streams_dag() -> None:
    found = incident("operation", "flights", run="manual__2026-03-01T00:00:00+00:00")
    run = "https://air.example.com/dags/stream__flights/runs/manual__2026-03-01T00%3A00%3A00%2B00%3A00"
    assert links_of(found, AIRFLOW, "")["run"] == run


def test_without_addresses_the_runbook_is_a_path_and_nothing_is_a_dead_link() -> None:
    found = incident("stream", "flights", state="blocked")
    assert links_of(found, "", "") == {"page": "", "run": "", "runbook": f"{page_links.RUNBOOK}#blocked"}
    assert words(found).splitlines()[-1] == f"runbook: {page_links.RUNBOOK}#blocked"
