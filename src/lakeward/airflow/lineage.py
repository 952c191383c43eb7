"""Lineage in the triggerer: sends OpenLineage events beside the watcher, in a thread that nothing waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from lakeward.platform.errors import LakewardError

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient

log = structlog.get_logger(__name__)

PAUSE_S = 30.0
_AFTER_ERROR_S = 120.0


async def send_forever() -> None:
    """Send what is due, every half minute. Returns at once where OpenLineage is not configured."""
    # Imported here: every parse of a Dag file imports the watcher, and only the triggerer needs the rest.
    from lakeward.lineage import transport

    if not transport.configured():
        return
    log.info("lineage is sent by OpenLineage", namespace=transport.namespace(), every_s=PAUSE_S)
    reported, client = "", None
    while True:
        pause = PAUSE_S
        try:
            client = client or transport.client()  # once: some transports have threads and connections of their own
            trouble = await _pass(client)
        except LakewardError as error:
            trouble, pause = str(error), _AFTER_ERROR_S
        except Exception as error:  # noqa: BLE001  # named boundary: lineage never ends the watcher, nor itself
            trouble, pause = f"{type(error).__name__}: {error}", _AFTER_ERROR_S
        if trouble != reported:
            if trouble:
                log.warning("lineage is not complete", why=trouble, next="lakeward lineage status")
            else:
                log.info("lineage is complete again")
            reported = trouble
        await asyncio.sleep(pause)


async def _pass(client: OpenLineageClient) -> str:
    """One pass; why something could not be sent, empty if everything was."""
    from lakeward.airflow.connections import runtime_async
    from lakeward.airflow.project import settings
    from lakeward.lineage import emit, transport
    from lakeward.platform.runtime import Project
    from lakeward.supervision.reconcile import registry_of

    runtime = await runtime_async()

    def whole() -> str:
        sent = emit.run(
            registry_of(runtime),
            emit.addresses_of(runtime, str(Project.locate().root)),
            client,
            transport.namespace(),
            settings().openlineage.every.timedelta,
        )
        waiting = [f"{stream}: {why}" for stream, why in sorted(sent.waiting.items())]
        return "; ".join([*([sent.failure] if sent.failure else []), *waiting])

    return await asyncio.to_thread(whole)
