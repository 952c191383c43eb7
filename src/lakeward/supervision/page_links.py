"""Links of an incident: to the page inside Airflow, to its run, to the section of the runbook. Pure.

The page itself is `lakeward.web`.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from lakeward.quality.verdicts import waive
from lakeward.registry.incidents import Incident

PLACE = "plugin/lakeward"
"""The page below Airflow's address."""
RUNBOOK = "docs/runbooks/on-call.md"
_OF_TABLES = ("quality", "verification_lag")
_DAGS = {"reconcile": "streams_reconcile", "thrash": "streams_reconcile", "dependency": "streams_reconcile"}
_CHECKS = "quality_check"
_OF_RUNS = ("operation", "freshness")
_SUPERVISION = "nobody-looks-after-the-streams"


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


def place(incident: Incident) -> tuple[str, str | None]:
    """The tab that shows an incident, and what is open there: its table's checks, its stream, or all streams."""
    if incident.kind in _OF_TABLES:
        return "quality", incident.subject
    if incident.kind == waive.KIND:
        return "quality", waive.table_of(incident.subject)
    return "streams", incident.streams[0] if len(incident.streams) == 1 else None


def of_incident(airflow: str, incident: Incident) -> str:
    """The page where an incident is to be seen."""
    return of(airflow, *place(incident))


def run_of(airflow: str, incident: Incident) -> str:
    """Airflow's page of the run that an incident is about, else of the Dag whose runs deal with it."""
    if not airflow:
        return ""
    dag, run = dag_of(incident), incident.fields.get("run")
    address = f"{airflow.rstrip('/')}/dags/{quote(dag, safe='')}"
    # The run of a check is Lakeward's own: only these are about a run of the Dag.
    return f"{address}/runs/{quote(str(run), safe='')}" if incident.kind in _OF_RUNS and run else f"{address}/runs"


def dag_of(incident: Incident) -> str:
    """The Dag whose runs deal with an incident."""
    known = incident.fields.get("dag")
    if isinstance(known, str):
        return known
    if incident.kind in (*_OF_TABLES, waive.KIND):
        return _CHECKS
    if incident.kind in _DAGS or not incident.streams:
        return _DAGS["reconcile"]
    return f"stream__{incident.streams[0]}"


def runbook_of(incident: Incident) -> str:
    """The section of the runbook: of the stream's state, of missing supervision, else of the kinds of incidents."""
    section = {"stream": str(incident.fields.get("state") or "incidents"), "reconcile": _SUPERVISION}
    return f"{RUNBOOK}#{section.get(incident.kind, 'incidents')}"
