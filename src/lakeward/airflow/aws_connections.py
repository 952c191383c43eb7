"""Airflow's AWS connections as profile files of the home: drivers and the command line cannot ask Airflow.

Each task writes those that the catalog and sources name. What stands in one is judged by whoever uses it. One that
Airflow does not give stays as it was last known, for a secrets backend that is away looks like one that was removed; it
goes when nothing names it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from lakeward.airflow import connections
from lakeward.airflow.connections import Found, unnamed
from lakeward.connectors.aws import account
from lakeward.platform import private
from lakeward.platform.runtime import Runtime
from lakeward.registry import generations

_NAMES = {"region_name": account.REGION}
"""What Airflow calls otherwise."""


def named(runtime: Runtime) -> set[str]:
    """The connections that the catalog and streams name; those known already where the registry is away."""
    store = runtime.lake.store
    own = {store.connection} if store is not None and store.connection is not None else set()
    return own | connections.named(runtime, generations.aws_connections, account.names(runtime.connections))


def keep(runtime: Runtime, ids: Collection[str], get: Callable[[str], Found | None]) -> None:
    """Bring the files up to date with Airflow.

    Args:
        get: the Airflow connection of an id; None where there is none.
    """
    if runtime.connections is None:
        return
    folder = account.places(runtime.connections)[0]
    for name in sorted(ids):
        if (found := get(name)) is not None:
            private.update(folder / f"{name}.ini", account.render(given(found)))
    for file in unnamed(folder, ids, ".ini"):
        file.unlink(missing_ok=True)


def given(connection: Found) -> dict[str, object]:
    """What a connection says, in the names of a profile file: its extra, and its own fields where the extra lacks
    them."""
    fields = {account.KEY: connection.login, account.SECRET: connection.password}
    told = {_NAMES.get(name, name): value for name, value in connection.extra_dejson.items()}
    said = {name: value for name, value in fields.items() if value} | told
    return {name: " ".join(str(value).split()) for name, value in said.items()}
