"""The page with what a run of `make compose-test` saw."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

_HEAD = """# Report of `make compose-test`

Written by `tests/compose/prove.py`. [Run in containers](../how-to/run-in-containers.md) says what the services are.

- {date}: Docker engine {engine}, {compose}, Linux {linux}, {cores} cores, load {load:.1f}.
- Airflow {airflow}, Spark {spark}, one stream (`flights` of the demo) with a driver of one JVM.
- Stand-ins under the names of images that could not be pulled there: {stand_ins}.
- Every service was healthy {up_s:.0f} s after `up`.
- The first {portion:,} records were landed {first_s:.0f} s after they were sent.

The first process of each container got SIGKILL while the stream ran, and Docker started the container again by its
restart policy; {portion:,} more records were sent meanwhile (for `kafka`: afterwards). `landed` counts from the moment
that the container was healthy until the audit had counted every record.

| killed | healthy after | landed after | records | audit |
|---|---|---|---|---|
"""


def page(facts: dict[str, Any]) -> str:
    """The page of the docs."""
    head = _HEAD.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        linux=platform.release().split("-")[0],
        cores=os.cpu_count(),
        load=os.getloadavg()[2],
        airflow=version("apache-airflow"),
        spark=version("pyspark"),
        stand_ins=", ".join(f"`{each}`" for each in facts["stand_ins"]) or "none",
        **{name: facts[name] for name in ("engine", "compose", "up_s", "portion", "first_s")},
    )
    rows = "".join(
        f"| {name} | {healthy:.0f} s | {took:.0f} s | {count:,} | {word} |\n"
        for name, healthy, took, count, word in facts["rows"]
    )
    counts = {name: value for name, value in facts["audit"].items() if isinstance(value, int)}
    return f"{head}{rows}\nAt the end: audit `{json.dumps(counts)}`; `quality run`: {facts['check']}.\n"
