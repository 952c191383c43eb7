"""Where a YARN cluster is: a driver's entry, its connection, and Hadoop's own files, settled into one place.

| searched | written by |
|---|---|
| `<connections>/airflow/spark/<id>.json` | a person or a tool, from the Airflow connection of that id |
| `<connections>/spark/<id>.json` | a person |

The file has the fields of Airflow's type `spark`: `host` is `yarn`, `extra` has `queue` and `deploy-mode`, and may have
`hadoop_conf` and `resource_manager`. The entry of the driver takes precedence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import YarnPlace

HOW = "docs/how-to/run-drivers-on-yarn.md"
CONF = "HADOOP_CONF_DIR"
QUEUE = "default"
_HTTP_PORT, _HTTPS_PORT = 8088, 8090
_EXTRA = ("queue", "deploy-mode", "hadoop_conf", "resource_manager")


def settled(place: YarnPlace, connections: Path | None) -> YarnPlace:
    """The place with everything that the connection and Hadoop's files say.

    Raises:
        SpecError: the connection, or the files of Hadoop, cannot be used.
    """
    given = _connection(place.connection, connections) if place.connection is not None else {}
    folder = place.hadoop_conf or given.get("hadoop_conf") or os.environ.get(CONF) or os.environ.get("YARN_CONF_DIR")
    if not folder:
        raise _unusable("no folder with yarn-site.xml is named", f"hadoop_conf: of the driver, or {CONF}")
    addresses = place.resource_managers or tuple(str(given.get("resource_manager", "")).replace(",", " ").split())
    return place.model_copy(
        update={
            "queue": place.queue or given.get("queue") or QUEUE,
            "hadoop_conf": str(folder),
            "resource_managers": addresses or web_addresses(Path(str(folder))),
        }
    )


def web_addresses(folder: Path) -> tuple[str, ...]:
    """The web addresses of the ResourceManagers that `yarn-site.xml` names, in its order.

    Raises:
        SpecError: the file is missing or invalid, or names none.
    """
    given = properties(folder / "yarn-site.xml")
    secure = given.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
    scheme, port = ("https", _HTTPS_PORT) if secure else ("http", _HTTP_PORT)
    key = f"yarn.resourcemanager.webapp.{'https.' if secure else ''}address"
    ids = (
        given.get("yarn.resourcemanager.ha.rm-ids", "")
        if given.get("yarn.resourcemanager.ha.enabled") == "true"
        else ""
    )
    found = []
    for suffix in [f".{each.strip()}" for each in ids.split(",") if each.strip()] or [""]:
        host = given.get(f"yarn.resourcemanager.hostname{suffix}")
        address = given.get(f"{key}{suffix}") or (f"{host}:{port}" if host else "")
        address = address.replace("${yarn.resourcemanager.hostname}", host or "")
        if address:
            found.append(f"{scheme}://{address}")
    if not found:
        raise _unusable(f"{folder / 'yarn-site.xml'} names no ResourceManager", "resource_manager: http://HOST:8088")
    return tuple(found)


def properties(file: Path) -> Mapping[str, str]:
    """The properties of a file of Hadoop.

    Raises:
        SpecError: it is missing or invalid.
    """
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314  # the administrator's own file, which Spark reads as well
    except OSError as error:
        raise _unusable(f"{file}: {error.strerror}", f"hadoop_conf: of the driver, or {CONF}") from None
    except ElementTree.ParseError as error:
        raise _unusable(f"{file} is no XML: {error}", "the file") from None
    pairs = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in pairs if name}


def _connection(name: str, connections: Path | None) -> Mapping[str, str]:
    folders = [] if connections is None else [connections / "airflow" / "spark", connections / "spark"]
    files = [folder / f"{name}.json" for folder in folders]
    file = next((each for each in files if each.exists()), None)
    if file is None:
        where = files[-1] if files else "this deployment has no folder of connections"
        raise _unusable(f"connection {name} does not exist", f"the connection: {where}")
    try:
        given: Any = json.loads(file.read_text())
        given = (
            given[0] if isinstance(given, list) and len(given) == 1 else given
        )  # as `airflow connections get` prints
        extra = given.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
        host = str(given.get("host") or "")
        kept = {key: str(value) for key, value in extra.items() if key in _EXTRA and value}
    except (OSError, ValueError, AttributeError):
        raise _unusable(f"connection {name}: {file} is no JSON object with host and extra", "the connection") from None
    if host.removeprefix("yarn://").partition(":")[0] != "yarn":
        raise _unusable(f"connection {name} is of {host or 'no host'}, and not of YARN", "its host: yarn")
    if kept.get("deploy-mode", "cluster") != "cluster":
        raise _unusable(
            f"connection {name} has deploy-mode {kept['deploy-mode']}; a driver on YARN runs in cluster mode",
            'its extra: {"deploy-mode": "cluster"}',
        )
    return kept


def _unusable(why: str, what: str) -> SpecError:
    return SpecError(
        "A driver on YARN does not find its cluster", why=why,
        next=f"correct {what} ({HOW}), then: lakeward doctor", code="LW-2564",
    )  # fmt: skip
