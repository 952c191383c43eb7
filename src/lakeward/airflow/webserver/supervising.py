"""Why nobody supervises the streams, as Airflow's own database knows it: for the page, which runs in the API server."""

from __future__ import annotations

from dataclasses import replace

from airflow.models.dag import DagModel
from airflow.utils.session import create_session

from lakeward.airflow.names import RECONCILE
from lakeward.supervision.presence import Presence, State


def explain(present: Presence) -> Presence:
    """The same with its cause. A known cause is not awaited: it does not end by itself."""
    if present.state is State.OK:
        return present
    with create_session() as session:
        dag = session.get(DagModel, RECONCILE)
        if dag is None or dag.is_stale:
            found = cause(known=False)
        else:
            found = cause(paused=bool(dag.is_paused), broken=bool(dag.has_import_errors))
    if found is None:
        return present
    why, next_ = found
    judged = State.NEVER if present.state is State.AWAITED else present.state
    return replace(present, state=judged, why=f"{present.why}; {why}", next=next_)


def cause(*, known: bool = True, paused: bool = False, broken: bool = False) -> tuple[str, str] | None:
    """What keeps the Dag from running, and what to do; None if nothing is known. Pure.

    Args:
        known: Airflow has the Dag.
    """
    if not known:
        return (
            f"Airflow has no Dag {RECONCILE}",
            "put lakeward_streams.py into Airflow's Dag folder (lakeward init --dags DIR writes it)",
        )
    if paused:
        return f"the Dag {RECONCILE} is paused", f"unpause the Dag {RECONCILE}"
    if broken:
        return f"Airflow cannot read the file of the Dag {RECONCILE} any more", f"open the Dag {RECONCILE}: its error"
    return None
