"""What each Airflow task imports again stays cheap: no source is read, no engine or parser loaded, no large model made.

A supervision pass on a starved machine spends its time in imports. Reading docstrings from source while models are
made cost 0.5 CPU-s and more in every task, because `inspect.getmodule` walks all loaded modules; sqlglot costs 0.4 s.
The seconds are printed and not judged: they depend on the machine. Run with `-s` to see them; the target is 0.3.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

ENGINES = ("pyspark", "pyiceberg", "deltalake", "great_expectations", "pandas", "pyarrow", "confluent_kafka", "boto3")
PARSERS = ("sqlglot", "ruamel")
DEFAULTS = {
    "Reference", "Transform", "Trigger", "SchemaPolicy", "Limits", "State", "Resources", "Restart", "StreamDefaults",
    "Catalog", "Reconcile", "Checker", "OpenLineage", "Keep",
}  # fmt: skip
"""Models whose values are defaults of fields: small, 0.01 CPU-s together. All others are made at their first value."""
NEEDED = {
    "pass": (
        "lakeward.airflow.reconcile_dag", "lakeward.airflow.connections", "lakeward.airflow.deadlines",
        "lakeward.airflow.project", "lakeward.airflow.notify", "lakeward.airflow.upkeep", "lakeward.airflow.assets",
        "lakeward.supervision.reconcile", "lakeward.supervision.act", "lakeward.supervision.observe",
        "lakeward.supervision.report", "lakeward.supervision.check_requests", "lakeward.spec.read.settings_file",
    ),
    "watcher": (
        "lakeward.airflow.watcher", "lakeward.airflow.tables_watcher", "lakeward.tables.changes",
        "lakeward.airflow.connections", "lakeward.airflow.notify",
        "lakeward.supervision.alarm", "lakeward.supervision.heartbeat_monitor",
        "lakeward.supervision.relaunch", "lakeward.supervision.quiet_pass", "lakeward.supervision.report",
        "lakeward.airflow.project", "lakeward.spec.read.settings_file",
    ),
    "check run": (
        "lakeward.airflow.quality_dags", "lakeward.airflow.connections", "lakeward.quality.runs.ask",
        "lakeward.quality.results.records", "lakeward.quality.results.text", "lakeward.registry.verifications",
        "lakeward.quality.verdicts.quarantine_policy", "lakeward.airflow.tasks.command",
    ),
    "Dag files": (
        "lakeward.airflow.project", "lakeward.airflow.stream_dags", "lakeward.airflow.schedule_dags",
        "lakeward.airflow.maintain_dag", "lakeward.airflow.observe_dag", "lakeward.airflow.quality_dags",
    ),
}  # fmt: skip
SCRIPT = """
import gc, inspect, json, sys, time

def read(*_, **__):
    raise AssertionError("source code was read during an import")

# Airflow's own; a task has it loaded already.
import airflow.sdk
from airflow.sdk.execution_time import task_runner
import airflow.providers.standard.operators.python, airflow.triggers.base

inspect.getmodule = inspect.getsource = inspect.getsourcelines = read
before = set(sys.modules)
gc.freeze()  # the workers of Airflow's executor do so before they fork, and so does a pass
begun = time.process_time()
import {modules}
spent = time.process_time() - begun

def below(model):
    for each in model.__subclasses__():
        yield each
        yield from below(each)

base = sys.modules.get("lakeward.spec.model.base")
made = [each.__name__ for each in below(base.SpecModel) if each.__pydantic_complete__] if base else []
new = sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})
print(json.dumps({{"cpu_s": spent, "modules": len(set(sys.modules) - before), "new": new, "made": made}}))
"""


def imported(modules: tuple[str, ...]) -> dict[str, Any]:
    """What importing these costs in a process that has Airflow's part of a worker loaded."""
    script = SCRIPT.format(modules=", ".join(modules))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("what", NEEDED)
def test_the_imports_of_a_task_read_no_source_load_no_engine_and_make_no_large_model(what: str) -> None:
    cost = imported(NEEDED[what])
    print(f"{what}: {cost['cpu_s']:.2f} CPU-s for {cost['modules']} modules")
    assert not set(cost["new"]) & {*ENGINES, *PARSERS}
    assert set(cost["made"]) <= DEFAULTS


def test_reading_the_settings_loads_no_sql_parser() -> None:
    """A pass reads them when it launches a driver; the streams, which have SQL, are not read for it."""
    cost = imported(("lakeward.spec.read.settings_file", "lakeward.spec.read.document", "lakeward.spec.read.repair"))
    assert not set(cost["new"]) & {*ENGINES, "sqlglot"}
