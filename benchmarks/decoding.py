"""What decoding costs: CPU seconds of this source tree against another one, on the same records, in turns ABBA.

    python benchmarks/decoding.py --other /path/to/other/src/lakeward [--records 200000] [--pairs 9] [--schema plain]

Each tree decodes in a process of its own, in one JVM, warmed up first; records are cached, results are not kept
(`noop`). The two processes take turns. `--schema plain`: flights, as in the demo; `decimal`: prices and days; `nested`:
arrays of structs. One JSON object: the median and quartiles of the ratios (other / this: above 1, this one is faster).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "src" / "lakeward"
SCHEMAS = {
    "plain": "year INT, month INT, dep_time INT, dep_delay DOUBLE, arr_delay DOUBLE, carrier STRING, flight INT, "
    "tailnum STRING, origin STRING, dest STRING, air_time DOUBLE, distance DOUBLE, hour INT, time_hour TIMESTAMP",
    "decimal": "id BIGINT, price DECIMAL(10,2), tax DECIMAL(10,2), day DATE, code STRING, note STRING",
    "nested": "id BIGINT, at TIMESTAMP, items ARRAY<STRUCT<sku: STRING, n: INT, price: DOUBLE>>",
}


def record(schema: str, n: int) -> dict[str, Any]:
    """The n-th record."""
    at = f"2013-{n % 12 + 1:02}-{n % 28 + 1:02}T{n % 24:02}:00:00Z"
    if schema == "decimal":
        price = {"price": n % 10**6 / 100, "tax": f"{n % 977}.{n % 100:02}"}
        return {"id": n, **price, "day": at[:10], "code": f"A{n}", "note": "as agreed"}
    if schema == "nested":
        items = [{"sku": f"S{n % 97}{i}", "n": i, "price": i * 1.25} for i in range(4)]
        return {"id": n, "at": at, "items": items}
    return {
        "year": 2013, "month": n % 12 + 1, "dep_time": n % 2400, "dep_delay": n % 90 - 10.0, "arr_delay": n % 77 - 9.5,
        "carrier": "UA", "flight": n % 5000, "tailnum": f"N{n % 99999}", "origin": "EWR", "dest": "IAH",
        "air_time": n % 300 + 0.0, "distance": 1400.0, "hour": n % 24, "time_hour": at,
    }  # fmt: skip


def work(schema: str, records: int) -> None:
    """One side: for each line on stdin it decodes everything once and prints the CPU seconds of its JVM."""
    from pyspark.sql import SparkSession

    from lakeward.connectors.decode.json import JsonDecoder
    from lakeward.jars import own

    # An older tree has no such jar and needs none.
    libraries = ",".join(str(jar) for jar in getattr(own, "libraries", tuple)())
    conf = {"spark.ui.enabled": "false", "spark.driver.memory": "1500m", "spark.ui.showConsoleProgress": "false"}
    conf["spark.jars"] = libraries
    builder = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = [(json.dumps(record(schema, n)).encode(), n) for n in range(records)]
    raw = spark.createDataFrame(rows, "_value BINARY, _kafka_offset BIGINT").coalesce(1).persist()
    raw.count()
    decoder = JsonDecoder(SCHEMAS[schema], keep=("_kafka_offset",))
    # What a batch without records in doubt plans; an older tree has one way only.
    decode = getattr(decoder, "apply_fast", decoder.apply)
    jvm: Any = spark.sparkContext._jvm
    pid = jvm.java.lang.ProcessHandle.current().pid()
    for _ in sys.stdin:
        begun = cpu_seconds(pid)
        decode(raw).write.format("noop").mode("overwrite").save()
        print(cpu_seconds(pid) - begun, flush=True)


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process until now."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Side:
    """A process that decodes with one source tree."""

    def __init__(self, tree: Path, schema: str, records: int) -> None:
        command = [sys.executable, __file__, "--work", "--schema", schema, "--records", str(records)]
        env = {**os.environ, "PYTHONPATH": str(tree.parent)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )

    def once(self) -> float:
        """CPU seconds of decoding everything once."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate(timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--other", type=Path, default=HERE, help="the other tree's src/lakeward")
    parser.add_argument("--schema", choices=sorted(SCHEMAS), default="plain")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--warm", type=int, default=6, help="runs of each side before the first that counts")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.schema, arguments.records)
        return
    this, other = (Side(tree, arguments.schema, arguments.records) for tree in (HERE, arguments.other.resolve()))
    for _ in range(arguments.warm):
        this.once(), other.once()  # the JVM compiles
    ratios = []
    for pair in range(arguments.pairs):
        sides = (this, other) if pair % 2 else (other, this)
        took = {id(side): side.once() for side in sides}
        ratios.append(took[id(other)] / took[id(this)])
        print(f"{took[id(this)]:.2f} s against {took[id(other)]:.2f} s", file=sys.stderr, flush=True)
    this.close()
    other.close()
    low, median, high = (round(each, 3) for each in statistics.quantiles(ratios, n=4))
    print(json.dumps({"schema": arguments.schema, "other_by_this": {"low": low, "median": median, "high": high}}))


if __name__ == "__main__":
    main()
