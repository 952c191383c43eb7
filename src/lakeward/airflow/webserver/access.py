"""Who may see the page and operate from it: Airflow's own permissions on its website and on each stream's Dag."""

from __future__ import annotations

from collections.abc import Iterable, Set

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends

from lakeward.web.app import Gate
from lakeward.web.reads import MayRead

_may_start_runs = requires_access_dag("POST", DagAccessEntity.RUN)


def gate() -> Gate:
    """The gate: whoever sees Airflow's website sees the page, with the streams whose Dags they may read."""
    return Gate(requires_access_view(AccessView.WEBSITE), may_read, operate)


def may_read(user: GetUserDep) -> MayRead:
    """Which of some Dags the caller may read; a Dag that Airflow has not parsed yet is judged by its name alone."""

    def readable(dags: Iterable[str]) -> Set[str]:
        dag_ids = list(dags)
        teams = DagModel.get_dag_id_to_team_name_mapping(dag_ids) if conf.getboolean("core", "multi_team") else {}
        manager = get_auth_manager()
        return {
            dag
            for dag in dag_ids
            if manager.is_authorized_dag(method="GET", details=DagDetails(id=dag, team_name=teams.get(dag)), user=user)
        }

    return readable


def operate(user: GetUserDep, _: None = Depends(_may_start_runs)) -> str:
    """The name of a caller who may start runs of the Dag in the path."""
    return user.get_name()
