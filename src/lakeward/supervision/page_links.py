"""Links to the page inside Airflow. Pure; the page itself is `lakeward.web`."""

from __future__ import annotations

from urllib.parse import urlencode

from lakeward.registry.incidents import Incident

PLACE = "plugin/lakeward"
"""The page below Airflow's address."""


def of(airflow: str, tab: str, subject: str | None = None) -> str:
    """The address of a tab of the page, with the details of one stream or table open.

    Args:
        airflow: the address that people use for Airflow (`[api] base_url`); without one there is no link.
        tab: streams, tables, quality or audit.
    """
    if not airflow:
        return ""
    query = {"tab": tab} if subject is None else {"tab": tab, "open": subject}
    return f"{airflow.rstrip('/')}/{PLACE}?{urlencode(query)}"


def of_incident(airflow: str, incident: Incident) -> str:
    """Where an incident is to be seen: its table's checks, its stream, or all streams if it is about many."""
    if incident.kind == "quality":
        return of(airflow, "quality", incident.subject)
    if incident.kind == "waiver":
        return of(airflow, "quality", incident.subject.partition("/")[0])
    return of(airflow, "streams", incident.streams[0] if len(incident.streams) == 1 else None)
