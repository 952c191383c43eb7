"""Examples of every command, which `--help` shows below its options. A contract test parses each of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import typer
from rich.markup import escape

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": ("lakeward init my-lake",),
    "doctor": ("lakeward doctor",),
    "deploy": ("lakeward deploy --plan", "lakeward deploy --retire flights"),
    "demo": ("lakeward demo --check --report report.json",),
    "sql": ('lakeward sql "SELECT carrier, count(*) FROM lake.nyc.flights GROUP BY carrier"',),
    "version": ("lakeward version",),
    "stack up": ("lakeward stack up --only postgres,kafka",),
    "stack use": ("lakeward stack use --registry postgresql://lakeward@db.example.com:5432/lakeward",),
    "stack status": ("lakeward stack status",),
    "stack down": ("lakeward stack down --keep-drivers",),
    "config validate": ("lakeward config validate --deep",),
    "config show": ("lakeward config show flights",),
    "streams backfill": (
        "lakeward streams backfill flights --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --dry-run",
        'lakeward streams backfill flights --from-files "/archive/flights/*.json" --comment "expired in the topic"',
        "lakeward streams backfill flights_by_hour --windows 2026-11-01T00:00Z..2026-11-02T00:00Z --dry-run",
    ),
    "streams events": ("lakeward streams events flights --since 2h",),
    "streams logs": ("lakeward streams logs flights --grep timeout",),
    "streams threads": ("lakeward streams threads flights --now",),
    "streams batches": ("lakeward streams batches flights --lines 5",),
    "streams progress": ("lakeward streams progress flights",),
    "streams ui": ("lakeward streams ui flights",),
    "streams list": ("lakeward streams list --state blocked",),
    "streams status": ("lakeward streams status flights",),
    "streams audit": ("lakeward streams audit flights",),
    "streams start": ("lakeward streams start flights --wait",),
    "streams stop": ("lakeward streams stop --tag nightly --max-parallel 4 --wait",),
    "streams restart": ("lakeward streams restart flights --wait",),
    "streams upgrade": ("lakeward streams upgrade flights --wait",),
    "streams rollback": ("lakeward streams rollback flights --to-generation 3 --wait",),
    "streams recover": ("lakeward streams recover flights --dry-run",),
    "streams reset": ('lakeward streams reset flights --to available --comment "records expired" --wait',),
    "streams skip-batch": ('lakeward streams skip-batch flights --batch 41 --comment "records of a test" --wait',),
    "streams import": ("lakeward streams import flights --checkpoint /checkpoints/flights --dry-run",),
    "streams hold": ('lakeward streams hold flights --for 2h --comment "broker is upgraded"',),
    "streams unhold": ("lakeward streams unhold flights",),
    "streams preview": ("lakeward streams preview flights --rows 50",),
    "streams rebuild": ("lakeward streams rebuild flights --dry-run",),
    "streams state": ("lakeward streams state flights_by_hour --rows 5",),
    "tables erase": ('lakeward tables erase nyc.flights --where "customer_id = 42" --dry-run',),
    "tables health": ("lakeward tables health nyc.flights",),
    "tables plan": ("lakeward tables plan nyc.flights",),
    "tables policy": ("lakeward tables policy nyc.flights",),
    "tables import-policy": ('lakeward tables import-policy policies.json --match "nyc.*"',),
    "tables history": ("lakeward tables history nyc.flights --limit 5",),
    "tables savings": ("lakeward tables savings nyc.flights",),
    "tables readers": ("lakeward tables readers nyc.flights",),
    "tables why": ("lakeward tables why nyc.flights",),
    "tables maintain": ("lakeward tables maintain nyc.flights --actions compact,expire --dry-run",),
    "tables hold": ('lakeward tables hold nyc.flights --for 2h --comment "a migration reads it"',),
    "tables unhold": ("lakeward tables unhold nyc.flights",),
    "tables restore": ("lakeward tables restore nyc.flights --to 4358109269898191001 --dry-run",),
    "quality docs": ("lakeward quality docs nyc.flights --to public/data-docs",),
    "quality import": ("lakeward quality import nyc.flights suite.json --owner data-platform",),
    "quality export": ("lakeward quality export nyc.flights",),
    "quality history": ("lakeward quality history nyc.flights -n 10",),
    "quality profile": ("lakeward quality profile nyc.flights --dry-run",),
    "quality waive": (
        'lakeward quality waive nyc.flights "column_values_to_not_be_null(carrier)" --for 2h --comment "known"',
    ),
    "quality unwaive": ('lakeward quality unwaive nyc.flights "column_values_to_not_be_null(carrier)"',),
    "quality release": ('lakeward quality release nyc.flights --comment "the source is right" --dry-run',),
    "quality quarantine": (
        'lakeward quality quarantine nyc.flights "column_values_to_not_be_null(carrier)" --dry-run',
    ),
    "quality replay": ("lakeward quality replay nyc.flights --reason decode --dry-run",),
    "quality lint": ("lakeward quality lint",),
    "quality run": ("lakeward quality run nyc.flights --scope table",),
    "quality show": ("lakeward quality show nyc.flights",),
    "quality status": ("lakeward quality status",),
    "lineage status": ("lakeward lineage status",),
    "lineage send": ("lakeward lineage send",),
    "metrics show": ("lakeward metrics show --partitions",),
    "metrics push": ("lakeward metrics push --once",),
    "metrics serve": ("lakeward metrics serve --port 9464",),
}


def complete_help(app: typer.Typer, above: str = "") -> None:
    """Give each command its examples, and its help the width of the terminal: typer keeps a docstring's own lines."""
    for command in app.registered_commands:
        callback = command.callback
        name = f"{above}{command.name or getattr(callback, '__name__', '').replace('_', '-')}"
        command.help = _paragraphs(command.help or inspect.getdoc(callback) or "")
        command.epilog = "\n\n".join(escape(f"Example: {example}") for example in EXAMPLES[name])
    for group in app.registered_groups:
        if group.typer_instance is not None:
            complete_help(group.typer_instance, f"{above}{group.name} ")


def _paragraphs(text: str) -> str:
    return "\n\n".join(re.sub(r"\s*\n\s*", " ", paragraph) for paragraph in re.split(r"\n\s*\n", text.strip()))
