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
from urllib.request import urlopen

from reconcile import fleet, record, registry_of_many

from lakeward.platform import ports
from lakeward.platform.runtime import Runtime

PAUSE_S = 0.5


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
    begun = time.monotonic()
    with urlopen(url) as answer:  # loopback
        answer.read()
    return (time.monotonic() - begun) * 1000


def client(url: str, number: int, requests: int) -> list[float]:
    """The answers that one client waits for."""
    time.sleep(PAUSE_S * number / 20)  # pages are opened at different moments
    found = []
    for _ in range(requests):
        found.append(ask(url))
        time.sleep(PAUSE_S)
    return found


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
            while not ports.answers(port):
                time.sleep(0.2)
            url = f"http://127.0.0.1:{port}/api/v1/streams"
            first = ask(url)
            with ThreadPoolExecutor(arguments.clients) as pool:
                each = pool.map(lambda number: client(url, number, arguments.requests), range(arguments.clients))
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
