"""The entry of a driver together with its connection: the one place where the two become one entry.

Everything that uses an entry to reach a cluster takes it from here: a launch, maintenance, the probes of `doctor` and
`deploy`. A value is written in the entry or in the connection; where both have it they must be equal.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from lakeward.connectors.cluster import kubernetes, spark
from lakeward.connectors.cluster.connection import HOW, BadConnection, Kind, find, missing
from lakeward.spec.model.settings import Driver, Settings


def resolved(name: str, settings: Settings, connections: Path | None) -> Driver:
    """The entry of a driver with everything that its connection says; without a connection the entry itself.

    Args:
        name: the driver.
        connections: folder with the connections, as in `Runtime`.

    Raises:
        BadConnection: the connection is missing or invalid, or does not fit the entry.
    """
    driver = settings.driver(name)
    if driver.connection is None or driver.backend == "local":
        return driver
    # Imported here: it reads spec files, and a pass without a connection needs none of that.
    from lakeward.spec.checks.executors import driver_findings

    given = _given(driver, connections)
    written = {key: getattr(driver, key) for key in given if key in driver.model_fields_set}
    different = [key for key, value in written.items() if value is not None and str(value) != given[key]]
    if different:
        both = "; ".join(f"{key} is {given[key]} there, and {written[key]} in the entry" for key in different)
        raise BadConnection(
            f"Driver {name} and its connection {driver.connection} disagree", why=both,
            next=f"remove {', '.join(different)} from drivers: {{{name}: ..}} in conf/lakeward.yaml, or from the "
            f"connection ({HOW[_kind(driver)]}); then: lakeward doctor", code="LW-2587",
        )  # fmt: skip
    # `model_copy` keeps the keys that were written, which the checks read; it validates nothing.
    try:
        checked = Driver.model_validate(given)
    except ValidationError as error:
        raise _unfit(name, driver, "; ".join(str(each["msg"]) for each in error.errors())) from None
    found = driver.model_copy(update={key: getattr(checked, key) for key in given})
    refused = [each.message for each in driver_findings(name, found) if not each.warning]
    if refused:
        raise _unfit(name, driver, "; ".join(refused))
    return found


def _given(driver: Driver, connections: Path | None) -> dict[str, str]:
    kind, named = _kind(driver), str(driver.connection)
    connection = find(kind, named, connections)
    if driver.backend == "kubernetes":
        if connection is None:  # a kubeconfig, or none: the access to the API says it
            return {}
        namespace = kubernetes.settings(connection).namespace
        return {} if namespace is None else {"namespace": namespace}
    if connection is None:
        raise missing(kind, named, connections)
    return spark.given(connection, driver)


def _kind(driver: Driver) -> Kind:
    return "kubernetes" if driver.backend == "kubernetes" else "spark"


def _unfit(name: str, driver: Driver, why: str) -> BadConnection:
    return BadConnection(
        f"The connection {driver.connection} does not fit driver {name}", why=why,
        next=f"correct the connection, or drivers: {{{name}: ..}} in conf/lakeward.yaml ({HOW[_kind(driver)]}); "
        "then: lakeward doctor", code="LW-2588",
    )  # fmt: skip
