"""Open incidents on the page: what they say, what to do, and which tab shows more."""

from __future__ import annotations

from collections.abc import Iterable, Set
from datetime import datetime
from typing import TypedDict

from lakeward.registry.incidents import Incident
from lakeward.supervision import page_links
from lakeward.telemetry.mask import mask

STREAM = "stream"
"""The kind of an incident of one stream, which its row and its details show."""


class PageIncident(TypedDict):
    """One open incident.

    Attributes:
        streams: those it is about; empty for one about a table or the whole.
        text: the message, as it is sent.
        runbook: the section of the runbook.
        tab, open: where the page shows more.
    """

    id: int
    kind: str
    subject: str
    streams: list[str]
    opened_at: datetime
    text: str
    next: str
    runbook: str
    tab: str
    open: str | None


def of_incident(incident: Incident) -> PageIncident:
    """One incident as the page shows it."""
    tab, subject = page_links.place(incident)
    return {
        "id": incident.id,
        "kind": incident.kind,
        "subject": incident.subject,
        "streams": incident.streams,
        "opened_at": incident.opened_at,
        "text": mask(incident.text),
        "next": mask(str(incident.fields.get("next") or "")),
        "runbook": page_links.runbook_of(incident),
        "tab": tab,
        "open": subject,
    }


def beyond_rows(incidents: Iterable[Incident]) -> list[PageIncident]:
    """The open incidents that no row of a stream shows: of tables, dependencies, operations, supervision."""
    return [of_incident(incident) for incident in incidents if incident.kind != STREAM]


def visible(incidents: Iterable[PageIncident], streams: Set[str], *, everything: bool) -> list[PageIncident]:
    """Those that a caller may see: each stream that it names; one that names none is for who sees `everything`."""
    return [item for item in incidents if (streams >= set(item["streams"]) if item["streams"] else everything)]
