"""The registry and the backend of a deployment, from its runtime file."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlalchemy import Connection

from lakeward.connectors.kubernetes.client import Apis
from lakeward.platform.runtime import Runtime
from lakeward.registry.version import connect
from lakeward.supervision.backends.base import Backend
from lakeward.supervision.backends.chooser import Backends
from lakeward.supervision.backends.kubernetes import KubernetesBackend
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.backends.standalone import StandaloneBackend
from lakeward.supervision.backends.yarn import YarnBackend
from lakeward.supervision.observe import Connect


def registry_of(runtime: Runtime) -> Connect:
    """Returns a function that opens a transaction on the registry of a runtime."""
    url = runtime.registry_url_file.read_text().strip()
    return lambda: connect(url, runtime.pgpass)


def backend_of(runtime: Runtime) -> Backend:
    """The backends of this deployment, as one."""

    # The registry's address is read when a backend needs it: commands without a registry list local drivers, too.
    def connected() -> AbstractContextManager[Connection]:
        return registry_of(runtime)()

    return Backends(
        LocalBackend.of_environment(runtime.drivers),
        StandaloneBackend(connected),
        KubernetesBackend(connected, Apis(runtime.connections).of),
        YarnBackend(connected),
    )
