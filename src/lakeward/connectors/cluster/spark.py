"""What a connection of Airflow's type `spark` says about the cluster of a driver, in the keys of `drivers:`.

The fields are those of Airflow's Spark provider (`SparkSubmitHook`), with the same meaning: host and port give the
master; `queue`, `deploy-mode`, `rest-scheme`, `rest-port` and `yarn_resourcemanager_webapp_address` are in the extra.
`hadoop_conf` and `resource_manager` (several addresses) are Lakeward's own additions.
"""

from __future__ import annotations

from lakeward.connectors.cluster.connection import HOW, BadConnection, ClusterConnection
from lakeward.spec.model.settings import Driver

YARN = "docs/how-to/run-drivers-on-yarn.md"
FIELDS = (
    "queue", "deploy-mode", "rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address",
    "hadoop_conf", "resource_manager",
)  # fmt: skip
"""The fields of the extra that are used; others, e.g. a keytab, are not stored in the home."""
_KINDS = (("spark://", "standalone"), ("k8s://", "kubernetes"), ("local", "local"))
_GATEWAY = "6066"


def master(connection: ClusterConnection) -> str:
    """The address of the master, put together from host and port as the Spark provider does it; empty without one."""
    host, port = connection.host, connection.port
    if connection.type == "yarn" or host.partition(":")[0] == "yarn":
        return "yarn"
    if not host:
        return ""
    # A connection that was made from a URI has the bare host and the port; one from the form has the whole address.
    address = host if "://" in host or not port else f"spark://{host}"
    return f"{address}:{port}" if port else address


def given(connection: ClusterConnection, driver: Driver) -> dict[str, str]:
    """The keys of `drivers:` that the connection gives to an entry, with their values.

    Raises:
        BadConnection: it has no master, or one of another kind than the entry's backend.
    """
    address = master(connection)
    kind = "yarn" if address == "yarn" else next((kind for start, kind in _KINDS if address.startswith(start)), None)
    if kind != driver.backend:
        raise _of_another_kind(connection, driver.backend, address, kind)
    mode = connection.given("deploy-mode")
    if kind == "yarn":
        if mode not in (None, "cluster"):
            raise BadConnection(
                f"The connection {connection.id} has a deploy mode that is not supported",
                why=f"its deploy-mode is {mode}; a driver on YARN runs in cluster mode",
                next=f'its extra: {{"deploy-mode": "cluster"}} ({YARN})', code="LW-2584",
            )  # fmt: skip
        return _without_none(
            queue=connection.given("queue"), hadoop_conf=connection.given("hadoop_conf"),
            resource_manager=_addresses(connection.given("resource_manager", "yarn_resourcemanager_webapp_address")),
        )  # fmt: skip
    mode = mode or str(driver.deploy_mode)
    rest = _rest(connection, address) if mode == "cluster" else None
    return _without_none(master=address, deploy_mode=mode, rest=rest)


def _rest(connection: ClusterConnection, address: str) -> str | None:
    """The REST gateway; None for the default one. With several masters the provider uses none of these fields."""
    scheme, port = connection.given("rest-scheme"), connection.given("rest-port")
    if (scheme is None and port is None) or "," in address:
        return None
    host = address.removeprefix("spark://").rpartition(":")[0]
    return f"{scheme or 'http'}://{host}:{port or _GATEWAY}"


def _addresses(written: str | None) -> str | None:
    return None if written is None else ",".join(each.rstrip("/") for each in written.replace(",", " ").split())


def _without_none(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _of_another_kind(connection: ClusterConnection, backend: str, address: str, kind: str | None) -> BadConnection:
    valid = "its host: spark://HOST:PORT" if backend == "standalone" else "its host: yarn"
    how = HOW["spark"] if backend == "standalone" else YARN
    if not address:
        why = "it has no host, and so no master"
    elif kind is None:
        why = f"its master is {address}, which no backend has"
    else:
        why = f"its master is {address}, which is of backend {kind}; the driver has backend {backend}"
    change = f", or backend: {kind} of the driver in conf/lakeward.yaml" if kind in ("standalone", "yarn") else ""
    return BadConnection(
        f"The connection {connection.id} does not name a master of backend {backend}", why=why,
        next=f"correct {valid}{change} ({how}); then: lakeward doctor", code="LW-2585",
    )  # fmt: skip
