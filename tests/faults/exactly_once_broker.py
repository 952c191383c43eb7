"""A broker that tells some of its clients to come through a proxy, and all others to come directly."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from proxy import Proxy

from lakeward import jars
from lakeward.platform import ports
from lakeward.stack import service_user
from lakeward.stack.kafka import Kafka, create_topic


@dataclass(frozen=True)
class Behind(Kafka):
    """A broker with a second listener, which names `proxied` as its own address."""

    via: int = 0
    proxied: int = 0

    def _settings(self, data: Path) -> dict[str, object]:
        usual = super()._settings(data)
        return usual | {
            "listeners": f"{usual['listeners']},VIA://{ports.HOST}:{self.via}",
            "advertised.listeners": f"{usual['advertised.listeners']},VIA://{ports.HOST}:{self.proxied}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,VIA:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }


@contextmanager
def broker(folder: Path) -> Iterator[tuple[Any, Proxy]]:
    """A running broker for those who go directly, and the proxy that others find it behind."""
    via = ports.any_free()
    proxy = Proxy(via)
    made = Behind(folder, ports.any_free(), ports.any_free(), via, proxy.port)
    java = jars.find_java()
    folder.mkdir(parents=True, exist_ok=True)
    made.initialise(java)
    with (folder / "log").open("ab") as sink:
        process = subprocess.Popen(
            service_user.bound(made.command(java)), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True, cwd="/",
        )  # fmt: skip
    try:
        made.wait()

        def topic(name: str, partitions: int = 1) -> str:
            create_topic(made.bootstrap, name, partitions)
            return name

        yield SimpleNamespace(bootstrap=made.bootstrap, create_topic=topic), proxy
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        proxy.close()
