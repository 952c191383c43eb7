"""Airflow's PostgreSQL connections as files of the home: drivers and the command line cannot ask Airflow.

Each task writes those that streams name: the address in one file, the password in a password file of libpq beside it. A
connection that is wrong stops the streams that name it and nothing else. One that Airflow does not give stays as it was
last known, for a secrets backend that is away looks like one that was removed; it goes when no stream names it any
more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path

from lakeward.airflow import connections
from lakeward.airflow.connections import Found, escape, unnamed
from lakeward.platform import private
from lakeward.platform.runtime import Runtime, databases
from lakeward.registry import generations


def named(runtime: Runtime) -> set[str]:
    """The connections that streams name; those known already where the registry is away."""
    return connections.named(runtime, generations.postgres_connections, runtime.postgres)


def keep(runtime: Runtime, secrets: Path, ids: Collection[str], get: Callable[[str], Found | None]) -> Runtime:
    """Bring the files up to date with Airflow; gives the runtime with what they say.

    Args:
        secrets: the home's folder of secrets.
        get: the Airflow connection of an id; None where there is none.
    """
    folder = secrets / "postgres" / "airflow"
    for name in sorted(ids):
        found = get(name)
        address, passwords = folder / f"{name}.json", folder / f"{name}.pgpass"
        if found is None:
            continue
        if found.password:
            private.update(passwords, f"*:*:*:*:{escape(found.password)}\n")
        private.update(address, json.dumps(_address(found, passwords), sort_keys=True))
        if not found.password:
            passwords.unlink(missing_ok=True)
    for address in unnamed(folder, ids):
        address.unlink(missing_ok=True)
        address.with_suffix(".pgpass").unlink(missing_ok=True)
    return runtime.model_copy(update={"postgres": {**runtime.postgres, **databases(secrets)}})


def _address(found: Found, passwords: Path) -> dict[str, object]:
    """What a connection says, in the names of `Database`; what that does not know stays and is refused there."""
    fields = {"host": found.host, "port": found.port, "database": found.schema, "user": found.login}
    own: dict[str, object] = {name: value for name, value in fields.items() if value}
    if found.password:
        own["passfile"] = str(passwords)
    return own | dict(found.extra_dejson)
