"""All Dags of Lakeward by two lines in a Dag file of an Airflow that has others:

    from lakeward.airflow.dags import dags
    globals().update(dags())

The project is the folder that `LAKEWARD_PROJECT` names; its files are read at each call. A task parses its Dag file
again: it gets its own Dag and no other, and only that Dag's modules are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import get_parsing_context

from lakeward.airflow.names import (
    MAINTAIN,
    OBSERVE,
    ORPHANS,
    QUALITY,
    RECONCILE,
    RESTORE,
    SCHEDULE_PREFIX,
    STREAM_PREFIX,
)
from lakeward.platform.runtime import Project

if TYPE_CHECKING:
    from airflow.sdk import DAG


def dags() -> dict[str, DAG]:
    """Every Dag by its id: of streams, tables and checks."""
    return {**streams(), **tables(), **quality()}


def streams() -> dict[str, DAG]:
    """`streams_reconcile`, `stream__<id>` for every file in conf/streams, `schedule__<id>` for one with a schedule."""
    only = get_parsing_context().dag_id
    found: list[DAG] = []
    if only in (None, RECONCILE):
        from lakeward.airflow.reconcile_dag import build as build_reconcile

        found.append(build_reconcile())
    if only is None or only.startswith((STREAM_PREFIX, SCHEDULE_PREFIX)):
        from lakeward.airflow.project import declared, named, scheduled
        from lakeward.airflow.schedule_dags import build as build_schedule
        from lakeward.airflow.stream_dags import build as build_stream

        if only is None:
            known = declared(Project.locate())
            found += [*map(build_stream, known), *map(build_schedule, scheduled(known))]
        elif only.startswith(STREAM_PREFIX):
            found.append(build_stream(named(only.removeprefix(STREAM_PREFIX))))
        else:
            found.append(build_schedule(named(only.removeprefix(SCHEDULE_PREFIX))))
    return {dag.dag_id: dag for dag in found}


def tables() -> dict[str, DAG]:
    """`tables_observe`, `tables_maintain`, `tables_orphans`, `tables_restore`."""
    only = get_parsing_context().dag_id
    if only not in (None, OBSERVE, MAINTAIN, ORPHANS, RESTORE):
        return {}
    from lakeward.airflow.maintain_dag import build_maintain
    from lakeward.airflow.observe_dag import build_observe
    from lakeward.airflow.orphan_dag import build_orphans
    from lakeward.airflow.restore_dag import build_restore

    looks = sweeps = None
    if only is None:
        from lakeward.airflow.project import table_intervals

        looks, sweeps = table_intervals(Project.locate())
    builders = {
        OBSERVE: lambda: build_observe(looks),
        MAINTAIN: build_maintain,
        ORPHANS: lambda: build_orphans(sweeps),
        RESTORE: build_restore,
    }
    return {name: build() for name, build in builders.items() if only in (None, name)}


def quality() -> dict[str, DAG]:
    """`quality_check`."""
    if get_parsing_context().dag_id not in (None, QUALITY):
        return {}
    from lakeward.airflow.quality_dags import build

    return {QUALITY: build()}
