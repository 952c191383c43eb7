"""Connections to clusters as files of the home, with the fields of an Airflow connection.

| searched | written by |
|---|---|
| `<connections>/airflow/<kind>/<id>.json` | Lakeward's tasks, from the Airflow connection of that id |
| `<connections>/<kind>/<id>.json` | a person, e.g. as `airflow connections get ID -o json` prints it |

The kind is `spark` (standalone and YARN) or `kubernetes`. The first existing file is used. See docs/adr/0111.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lakeward.platform.errors import SpecError

Kind = Literal["spark", "kubernetes"]
HOW: Mapping[Kind, str] = {
    "spark": "docs/how-to/run-on-a-spark-cluster.md",
    "kubernetes": "docs/how-to/run-drivers-on-kubernetes.md",
}
TYPES: Mapping[Kind, tuple[str, ...]] = {"spark": ("spark", "yarn"), "kubernetes": ("kubernetes",)}
"""Airflow's types of each kind. `yarn` is what Airflow makes of a URI that begins with `yarn://`."""

KUBECONFIG = ".kubeconfig"
"""Suffix of a file that a person may write in place of a connection to Kubernetes."""


class BadConnection(SpecError):
    """The connection of a driver is missing, invalid, or does not fit the entry."""


@dataclass(frozen=True)
class ClusterConnection:
    """A connection to a cluster.

    Attributes:
        id: the connection's id.
        file: where it was read.
        type: Airflow's type; empty if the file does not say it.
        host, port: as in Airflow.
        extra: its further fields; not part of `repr`, because it may have a login.
    """

    id: str
    file: Path
    type: str
    host: str
    port: int | None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def given(self, *names: str) -> str | None:
        """A field of the extra that is not empty, by the first of its names."""
        values = (str(self.extra.get(name) or "").strip() for name in names)
        return next((value for value in values if value), None)


def folders(kind: Kind, connections: Path | None) -> list[Path]:
    """The folders that are searched, in this order; none if the deployment has no connections."""
    return [] if connections is None else [connections / "airflow" / kind, connections / kind]


def find(kind: Kind, name: str, connections: Path | None) -> ClusterConnection | None:
    """The connection of an id; None if no file has it.

    Raises:
        BadConnection: its file cannot be read, or it is of another type. The error repeats no value of the extra.
    """
    file = next((file for each in folders(kind, connections) if (file := each / f"{name}.json").exists()), None)
    if file is None:
        return None
    read = _read(kind, name, file)
    if read.type and read.type not in TYPES[kind]:
        raise BadConnection(
            f"The connection {name} is of another type", why=f"it is of type {read.type}, not {TYPES[kind][0]}",
            next=f"airflow connections get {name}; name one of type {TYPES[kind][0]} under connection: of the driver "
            f"in conf/lakeward.yaml ({HOW[kind]})", code="LW-2583",
        )  # fmt: skip
    return read


def ids(kind: Kind, connections: Path | None) -> list[str]:
    """The ids of all connections of a kind."""
    suffixes = (".json", KUBECONFIG) if kind == "kubernetes" else (".json",)
    places = [(each, end) for each in folders(kind, connections) for end in suffixes]
    return sorted({file.stem for each, end in places for file in each.glob(f"[!.]*{end}")})


def missing(kind: Kind, name: str, connections: Path | None) -> BadConnection:
    """The error for a connection that does not exist."""
    places = folders(kind, connections)
    suffix = KUBECONFIG if kind == "kubernetes" else ".json"
    own = f"as the file {places[-1] / name}{suffix}" if places else "in a home (lakeward stack up)"
    known = ids(kind, connections)
    return BadConnection(
        f"The connection {name} to a cluster does not exist", why=f"known connections: {', '.join(known) or 'none'}",
        next=f"create it in Airflow (type {TYPES[kind][0]}; a task writes its file within a minute) or {own} "
        f"({HOW[kind]}), or correct connection: of the driver in conf/lakeward.yaml", code="LW-2581",
    )  # fmt: skip


def _read(kind: Kind, name: str, file: Path) -> ClusterConnection:
    try:
        given: Any = json.loads(file.read_text())
        if isinstance(given, list) and len(given) == 1:  # as `airflow connections get` prints it
            given = given[0]
        extra = given.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        port = int(given["port"]) if given.get("port") else None
        if not isinstance(extra, Mapping):
            raise TypeError
        return ClusterConnection(
            name, file, str(given.get("conn_type") or ""), str(given.get("host") or "").strip(), port, extra
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it is no JSON object with host and extra"
        raise BadConnection(
            f"The connection {name} to a cluster cannot be read", why=f"{file}: {why}",
            next=f"correct the file, or the Airflow connection {name} ({HOW[kind]})", code="LW-2582",
        ) from None  # fmt: skip
