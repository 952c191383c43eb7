"""What one reconcile pass over many streams costs, with a real PostgreSQL and real launch folders.

    python benchmarks/reconcile.py [--streams 1000] [--passes 3] [--dead 100]

Every stream has a driver of its own, whose process is played by this one; two dead launches lie beside each. The
registry holds what a month leaves: generations, observations with whole progress reports, batches, events, restarts.
Reported as one JSON object, for a pass in which every word changes, for one in which nothing does, and for one after
`--dead` drivers died: seconds, CPU seconds of this process, launches and burials; then what memory the process took.
Drivers that are launched are not started: starting one costs what Spark costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from bench_registry import fleet, played, record, registry_of_many

from lakeward.platform.runtime import Launch, Runtime
from lakeward.supervision.backends import identity
from lakeward.supervision.backends.base import Job
from lakeward.supervision.backends.local import LocalBackend
from lakeward.supervision.reconcile import reconcile_once, registry_of
from lakeward.telemetry import logs


class Played(LocalBackend):
    """The local backend, but for starting: a launch is answered by this very process."""

    def start(self, launch: Launch) -> Job:
        return played(launch)


def kill(runtime: Runtime, names: list[str]) -> None:
    """Their processes are gone, without a word."""
    for name in names:
        (file,) = (runtime.drivers / name).glob("20260103T*/process.json")
        file.write_text(json.dumps({**identity.of(os.getpid()), "pid": 2**22 - 9}))


def measured(runtime: Runtime, backend: LocalBackend) -> dict[str, Any]:
    began, cpu = time.monotonic(), time.process_time()
    summary = reconcile_once(
        registry_of(runtime), runtime, backend, holder="benchmark", startup_grace_s=0.0, chance=lambda: 0.0
    )
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "edges": len(summary.edges),
        "acts": {act: len([1 for item in summary.done if item.act == act]) for act in {i.act for i in summary.done}},
    }


def measure(runtime: Runtime, arguments: argparse.Namespace) -> dict[str, Any]:
    record(runtime, fleet(runtime, arguments.streams))
    backend = Played(runtime.drivers)
    before = psutil.Process().memory_full_info().pss
    changes = measured(runtime, backend)
    calm = [measured(runtime, backend) for _ in range(arguments.passes)]
    kill(runtime, [f"s{number}" for number in range(1, arguments.dead + 1)])
    deaths = measured(runtime, Played(runtime.drivers))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "streams": arguments.streams,
        "every_word_changes": changes,
        "nothing_changes": min(calm, key=lambda item: item["seconds"]),
        f"{arguments.dead}_drivers_died": deaths,
        "pss_mb": {
            "before": round(before / 2**20),
            "after": round(psutil.Process().memory_full_info().pss / 2**20),
            "peak_rss": round(_peak_kb() / 2**10),
        },
    }


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--dead", type=int, default=100)
    arguments = parser.parse_args()
    logs.to_stderr()
    with registry_of_many(arguments.streams) as runtime:
        print(json.dumps(measure(runtime, arguments)))


if __name__ == "__main__":
    sys.exit(main())
