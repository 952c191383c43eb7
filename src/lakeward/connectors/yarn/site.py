"""Where a YARN cluster is: what the driver's entry gives, and Hadoop's own files for the rest, settled into one place.

The entry has what its connection says already (`connectors.cluster`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from lakeward.platform.errors import SpecError
from lakeward.platform.runtime import YarnPlace

HOW = "docs/how-to/run-drivers-on-yarn.md"
CONF = "HADOOP_CONF_DIR"
QUEUE = "default"
_HTTP_PORT, _HTTPS_PORT = 8088, 8090


def settled(place: YarnPlace) -> YarnPlace:
    """The place with everything that Hadoop's files say.

    Raises:
        SpecError: the files of Hadoop cannot be used.
    """
    folder = place.hadoop_conf or os.environ.get(CONF) or os.environ.get("YARN_CONF_DIR")
    if not folder:
        raise _unusable("no folder with yarn-site.xml is named", f"hadoop_conf: of the driver, or {CONF}")
    return place.model_copy(
        update={
            "queue": place.queue or QUEUE,
            "hadoop_conf": folder,
            "resource_managers": place.resource_managers or web_addresses(Path(folder)),
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


def _unusable(why: str, what: str) -> SpecError:
    return SpecError(
        "A driver on YARN does not find its cluster", why=why,
        next=f"correct {what} ({HOW}), then: lakeward doctor", code="LW-2564",
    )  # fmt: skip
