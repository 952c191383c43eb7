"""A connection of the user's own kind, by its id: what a Python sink logs in with.

| looked for in | written by |
|---|---|
| `<connections>/airflow/python/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/python/<id>.json` | a person, in Airflow's names: host, port, login, password, schema, extra |

The first one counts. A file is read for each batch, so that a changed password needs no new launch.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import Runtime

_HELP = "docs/how-to/write-a-sink-in-python.md"


class Connection(BaseModel):
    """Where to, and as whom. What may be secret is not shown when it is printed.

    Attributes:
        id: the connection's.
        host, port, login, schema_: as in Airflow; `schema_` is Airflow's `schema`, e.g. a database's name.
        password: read it with `.password`; it stands in no text of this object.
        extra: whatever else the connection says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: str
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = Field(default=None, repr=False)
    schema_: str | None = Field(default=None, alias="schema")
    extra: dict[str, Any] = Field(default_factory=dict, repr=False)


def find(connection: str, runtime: Runtime) -> Connection:
    """The connection of an id.

    Raises:
        SpecError: this deployment does not know it, or its file is not in order; no value of it is repeated.
    """
    for folder in _places(runtime):
        if (file := folder / f"{connection}.json").exists():
            return _read(connection, file)
    own = f"the file {runtime.connections / 'python' / connection}.json" if runtime.connections else "a file"
    raise SpecError(
        f"There is no connection {connection!r} for a sink in Python",
        why=f"known connections: {', '.join(names(runtime)) or 'none'}",
        next=f"make it in Airflow or as {own} ({_HELP}), or name another one under sink: connection:",
        code="LW-3151",
    )


def names(runtime: Runtime) -> list[str]:
    """The ids of all connections that are known here."""
    return sorted({file.stem for folder in _places(runtime) for file in folder.glob("[!.]*.json")})


def from_airflow(runtime: Runtime) -> Path | None:
    """The folder of what Airflow knows; None where there is no place for it."""
    return None if runtime.connections is None else runtime.connections / "airflow" / "python"


def _places(runtime: Runtime) -> list[Path]:
    airflow = from_airflow(runtime)
    return [] if airflow is None or runtime.connections is None else [airflow, runtime.connections / "python"]


def _read(connection: str, file: Path) -> Connection:
    try:
        mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text()
        if mode & 0o077:
            raise SpecError(
                f"Connection {connection} is open to other users",
                why=f"{file} has mode {mode:04o}, and may hold a password",
                next=f"chmod 600 {file}",
                code="LW-3153",
            )
        given = json.loads(text)
        return Connection.model_validate({**given, "id": connection})
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()]
        raise _unreadable(connection, file, "; ".join(wrong)) from None
    except (OSError, ValueError, TypeError) as error:
        why = getattr(error, "strerror", None) or "it is no mapping in JSON"
        raise _unreadable(connection, file, why) from None


def _unreadable(connection: str, file: Path, why: str) -> SpecError:
    return SpecError(
        f"Connection {connection} cannot be read", why=f"{file}: {why}", next=f"correct it ({_HELP})", code="LW-3152"
    )
