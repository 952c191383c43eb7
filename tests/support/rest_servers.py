"""The REST catalogs of the tests: SeaweedFS, and Iceberg's own handlers, which vend credentials of a few seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lossy_catalog
import object_store
import reference_rest
from lossy_catalog import LossyCatalog

from lakeward.platform import ports
from lakeward.platform.runtime import Lake

SEAWEEDFS, HANDLERS = "seaweedfs", "handlers"
KINDS = (SEAWEEDFS, HANDLERS)
LIFE_S = 6.0


@contextmanager
def running(folder: Path, kind: str) -> Iterator[Lake]:
    """A server as the default catalog of a deployment."""
    if kind == HANDLERS:
        with reference_rest.running(folder, life_s=LIFE_S) as made:
            yield made.lake
    else:
        with object_store.running(folder, catalog=True) as weed:
            yield Lake(warehouse="s3://lake", store=weed.store, properties=weed.rest, login=weed.log_in())


@contextmanager
def lossy(folder: Path, kind: str) -> Iterator[tuple[Lake, LossyCatalog]]:
    """The same behind a proxy that spoils answers."""
    with running(folder, kind) as lake, lossy_catalog.running(int(lake.properties["uri"].rpartition(":")[2])) as proxy:
        through = {**lake.properties, "uri": f"http://{ports.HOST}:{proxy.server_port}"}
        yield lake.model_copy(update={"properties": through}), proxy
