"""Connection of a Python sink: the address and credentials of the user's system, by connection id.

| file | written by |
|---|---|
| `<connections>/airflow/python/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/python/<id>.json` | a person, in Airflow's names: host, port, login, password, schema, extra |

The first existing file is used. It is read for each batch, so that a changed password needs no restart.
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
    """A connection. Its `repr` omits the password and `extra`.

    Attributes:
        id: the connection id.
        host, port, login, schema_: as in Airflow; `schema_` is Airflow's `schema`, e.g. a database's name.
        password: not part of `repr`.
        extra: further fields of the connection.
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
        SpecError: the connection is unknown, or its file is invalid. The error repeats no value of the file.
    """
    for folder in _places(runtime):
        if (file := folder / f"{connection}.json").exists():
            return _read(connection, file)
    own = f"the file {runtime.connections / 'python' / connection}.json" if runtime.connections else "a file"
    raise SpecError(
        f"Python sinks have no connection {connection!r}",
        why=f"known connections: {', '.join(names(runtime)) or 'none'}",
        next=f"create it in Airflow or as {own} ({_HELP}), or correct sink: connection:",
        code="LW-3151",
    )


def names(runtime: Runtime) -> list[str]:
    """The ids of all connections of this deployment."""
    return sorted({file.stem for folder in _places(runtime) for file in folder.glob("[!.]*.json")})


def from_airflow(runtime: Runtime) -> Path | None:
    """The folder of connections from Airflow; None if the deployment has no folder of connections."""
    return None if runtime.connections is None else runtime.connections / "airflow" / "python"


def _places(runtime: Runtime) -> list[Path]:
    airflow = from_airflow(runtime)
    return [] if airflow is None or runtime.connections is None else [airflow, runtime.connections / "python"]


def _read(connection: str, file: Path) -> Connection:
    try:
        mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text()
        if mode & 0o077:
            raise SpecError(
                f"The file of connection {connection} can be read by other users",
                why=f"{file} has mode {mode:04o} and may contain a password",
                next=f"chmod 600 {file}",
                code="LW-3153",
            )
        given = json.loads(text)
        return Connection.model_validate({**given, "id": connection})
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, item['loc'])) or 'it'}: {item['msg']}" for item in error.errors()]
        raise _unreadable(connection, file, "; ".join(wrong)) from None
    except (OSError, ValueError, TypeError) as error:
        why = getattr(error, "strerror", None) or "it is not a JSON object"
        raise _unreadable(connection, file, why) from None


def _unreadable(connection: str, file: Path, why: str) -> SpecError:
    return SpecError(
        f"Cannot read connection {connection}", why=f"{file}: {why}", next=f"correct the file ({_HELP})", code="LW-3152"
    )
