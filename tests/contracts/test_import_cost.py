"""What each Airflow task imports anew stays cheap: no source code is read, and no engine is loaded.

A supervision pass on a starved machine spends its time in imports. Reading docstrings from source while models are
made cost 0.5 CPU-s and more in every task, because `inspect.getmodule` walks all loaded modules.
"""

from __future__ import annotations

import subprocess
import sys

ENGINES = ("pyspark", "pyiceberg", "deltalake", "great_expectations", "pandas", "pyarrow", "confluent_kafka", "boto3")
PASS = (
    "lakeward.airflow.connections", "lakeward.airflow.deadlines", "lakeward.airflow.project",
    "lakeward.supervision.reconcile", "lakeward.supervision.act", "lakeward.supervision.observe",
    "lakeward.supervision.report", "lakeward.supervision.check_requests", "lakeward.spec.read.loader",
)  # fmt: skip
SCRIPT = """
import inspect, sys

def read(*_, **__):
    raise AssertionError("source code was read during an import")

import airflow.sdk  # reads source itself; a task has it loaded already

inspect.getmodule = inspect.getsource = inspect.getsourcelines = read
before = set(sys.modules)
import {modules}
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


def test_the_imports_of_a_pass_read_no_source_and_load_no_engine() -> None:
    script = SCRIPT.format(modules=", ".join(PASS))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & set(ENGINES)
