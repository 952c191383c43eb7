"""Where control reaches what it looks after: the registry and the backend of a deployment."""

from __future__ import annotations

from lakeward.backends.base import Backend
from lakeward.backends.local import LocalBackend
from lakeward.control.look import Connect
from lakeward.registry.version import connect
from lakeward.runtime import Runtime


def registry_of(runtime: Runtime) -> Connect:
    """Opens transactions on the registry of a runtime."""
    url = runtime.registry_url_file.read_text().strip()
    return lambda: connect(url, runtime.pgpass)


def backend_of(runtime: Runtime) -> Backend:
    """The backend of this deployment."""
    return LocalBackend.of_environment(runtime.drivers)
