"""How soon the page's API answers with many streams, under clients that ask at the same time, over HTTP.

    python benchmarks/page_api.py [--streams 1000] [--clients 20] [--requests 20]

The application runs in a process of its own, as Airflow mounts it, without Airflow's permissions. Each client asks for
all streams every half second, ten times as often as a page does; the first answer, which reads the registry, is
reported by itself. One JSON object, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from urllib.request import Request, urlopen

from bench_registry import fleet, record, registry_of_many

from lakeward.platform import ports
from lakeward.platform.runtime import Runtime

PAUSE_S = 0.5
START_S = 60.0
"""The most that the server may take until it listens."""


def serve(runtime: Runtime, port: int) -> None:
    """The API, open to everyone."""
    import uvicorn

    from lakeward.web.app import Gate, build
    from lakeward.web.reads import Reads

    def everything(dags: Iterable[str]) -> Set[str]:
        return set(dags)

    gate = Gate(lambda: None, lambda: everything, lambda dag_id: "benchmark")
    uvicorn.run(build(Reads(lambda: runtime), gate), host="127.0.0.1", port=port, log_level="warning")


def ask(url: str) -> float:
    """One answer, read to its end; milliseconds."""
    request = Request(url, headers={"Accept-Encoding": "gzip"})  # as every browser
    begun = time.monotonic()
    with urlopen(request) as answer:  # loopback
        answer.read()
    return (time.monotonic() - begun) * 1000


def client(url: str, delay_s: float, requests: int) -> list[float]:
    """The answers that one client waits for, in milliseconds. It is as idle as a page between two of them."""
    time.sleep(delay_s)
    found = []
    for _ in range(requests):
        found.append(ask(url))
        time.sleep(PAUSE_S)
    return found


def listening(server: BaseProcess, port: int) -> None:
    """Wait until the server listens.

    Raises:
        RuntimeError: it ended, or needs too long.
    """
    end = time.monotonic() + START_S
    while not ports.answers(port):
        if not server.is_alive() or time.monotonic() > end:
            raise RuntimeError("the server of the page's API does not listen")
        time.sleep(0.2)  # a process cannot be waited for until it listens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--requests", type=int, default=20)
    arguments = parser.parse_args()
    with registry_of_many(arguments.streams) as runtime:
        record(runtime, fleet(runtime, arguments.streams))
        port = ports.any_free()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(runtime, port))
        server.start()
        try:
            listening(server, port)
            url = f"http://127.0.0.1:{port}/api/v1/streams"
            first = ask(url)
            with ThreadPoolExecutor(arguments.clients) as pool:
                # Pages are opened at different moments.
                delays = [PAUSE_S * number / arguments.clients for number in range(arguments.clients)]
                each = pool.map(lambda delay_s: client(url, delay_s, arguments.requests), delays)
                times = sorted(value for found in each for value in found)
        finally:
            server.terminate()
            server.join(30)
    cuts = statistics.quantiles(times, n=20)
    print(
        json.dumps(
            {
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
                "streams": arguments.streams,
                "clients": arguments.clients,
                "first_ms": round(first, 1),
                "median_ms": round(statistics.median(times), 1),
                "p95_ms": round(cuts[-1], 1),
                "most_ms": round(times[-1], 1),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
