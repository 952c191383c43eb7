"""A Kafka broker behind a bootstrap address that stays: it can be replaced by another one, and fall silent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from proxy import Proxy
from services import KafkaService
from stopped import stopped

from lakeward import jars
from lakeward.platform import ports
from lakeward.stack import service_user
from lakeward.stack.kafka import Kafka


class ReplacedBroker:
    """The address stays; the broker behind it is one process at a time.

    A broker names its own address in every answer, and clients go there afterwards: the bootstrap address is a proxy,
    as a load balancer or a Kubernetes service is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._proxy = Proxy(0)
        self.service = KafkaService(f"{ports.HOST}:{self._proxy.port}")
        self._port = self._start(ports.any_free())

    def replace(self, *, same_port: bool) -> None:
        """Another broker with an empty log and another cluster id; killed, as if its machine was lost."""
        self._end(signal.SIGKILL)
        self._start(self._port if same_port else ports.any_free())

    def silent(self) -> AbstractContextManager[None]:
        """The broker says nothing."""
        return stopped(self._process)

    def close(self) -> None:
        self._end(signal.SIGKILL)
        self._proxy.close()

    def _start(self, port: int) -> int:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir(parents=True)
        broker, java = Kafka(folder, port, ports.any_free()), jars.find_java()
        broker.initialise(java)
        with (folder / "log").open("ab") as sink:
            self._process = subprocess.Popen(
                service_user.bound(broker.command(java)), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                start_new_session=True, cwd="/", env=dict(os.environ),
            )  # fmt: skip
        broker.wait(120)
        self._proxy.target = port
        return port

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(60)


@contextmanager
def running(folder: Path) -> Iterator[ReplacedBroker]:
    """A broker that is ended whatever happens."""
    jars.ensure()
    made = ReplacedBroker(folder)
    try:
        yield made
    finally:
        made.close()
