"""Airflow's PostgreSQL connections as files of the home: drivers and the command line cannot ask Airflow.

Each task writes those that streams name, and removes what Airflow no longer has: the address in one file, the password
in a password file of libpq beside it. A connection that is wrong stops the streams that name it and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from lakeward import private
from lakeward.airflow.connections import Found, escape
from lakeward.control.reconcile import registry_of
from lakeward.errors import DependencyDown
from lakeward.registry import generations
from lakeward.runtime import Runtime, databases


def named(runtime: Runtime) -> set[str]:
    """The connections that streams name; those known already where the registry is away."""
    try:
        with registry_of(runtime)() as connection:
            return generations.postgres_connections(connection)
    except DependencyDown:
        return set(runtime.postgres)


def keep(runtime: Runtime, secrets: Path, ids: Iterable[str], get: Callable[[str], Found | None]) -> Runtime:
    """Bring the files up to date with Airflow; gives the runtime with what they say.

    Args:
        secrets: the home's folder of secrets.
        get: the Airflow connection of an id; None where there is none.
    """
    folder = secrets / "postgres" / "airflow"
    for name in sorted(ids):
        found = get(name)
        address, passwords = folder / f"{name}.json", folder / f"{name}.pgpass"
        if found is None or not found.host:
            address.unlink(missing_ok=True)
            passwords.unlink(missing_ok=True)
            continue
        _keep(passwords, f"*:*:*:*:{escape(found.password)}\n" if found.password else "")
        _keep(address, json.dumps(_address(found, passwords), sort_keys=True))
    return runtime.model_copy(update={"postgres": {**runtime.postgres, **databases(secrets)}})


def _address(found: Found, passwords: Path) -> dict[str, object]:
    """What a connection says, in the names of `Database`; what that does not know stays and is refused there."""
    fields = {"host": found.host, "port": found.port, "database": found.schema, "user": found.login}
    own: dict[str, object] = {name: value for name, value in fields.items() if value}
    if found.password:
        own["passfile"] = str(passwords)
    return own | dict(found.extra_dejson)


def _keep(file: Path, text: str) -> None:
    """A private file with this text; without a text none. Nothing is written that is there already."""
    if not text:
        file.unlink(missing_ok=True)
    elif not file.exists() or file.read_text() != text:
        private.write(private.folder(file.parent) / file.name, text)
