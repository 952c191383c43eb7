"""Semantic checks of settings, table policies and suites, beyond the types of values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakeward.spec.checks import not_supported, spark_conf, sqlite
from lakeward.spec.checks.catalogs import catalog_findings
from lakeward.spec.checks.executors import driver_findings
from lakeward.spec.model.settings import Settings
from lakeward.spec.model.suite import Suite
from lakeward.spec.model.tables import Tables, below_floors, entries, larger_than_a_group
from lakeward.spec.read.document import Path_
from lakeward.spec.read.messages import Finding

_DECIDE_SIZES = ("compact", "max_group_size", "match")


def settings_findings(settings: Settings) -> Iterator[Finding]:
    """Problems of `conf/lakeward.yaml`."""
    for path, what in not_supported.of_settings(settings):
        yield Finding(path, f"not yet: {what}")
    if why := sqlite.refusal(settings.catalog.properties):
        message = (
            f"the catalog cannot be a file of SQLite: {why}; leave properties: out, for the PostgreSQL of the stack"
        )
        yield Finding(("catalog", "properties"), message)
    yield from catalog_findings(settings)
    inside, place = settings.catalog.warehouse, settings.checkpoints
    if inside is not None and place is not None and f"{place.key}/".startswith(f"{inside.key}/"):
        message = f"checkpoints below the warehouse ({inside}) would be taken for orphan files of a table"
        yield Finding(("checkpoints",), message, str(place))
    for key in getattr(settings.defaults, "spark", None) or ():
        if refused := spark_conf.refusal(key):
            yield Finding(("defaults", "spark", key), refused, key, key=True)
    for name, driver in settings.drivers.items():
        yield from driver_findings(name, driver)


def tables_findings(tables: Tables, landed: Collection[str], doubtful: Collection[Path_]) -> Iterator[Finding]:
    """Problems of `conf/tables.yaml`.

    Args:
        tables: its valid parts.
        landed: the tables this project's streams write.
        doubtful: paths that were removed from it.
    """
    if not any(path[-1] in _DECIDE_SIZES or isinstance(path[-1], int) or len(path) == 1 for path in doubtful):
        for path, why in larger_than_a_group(tables, landed):
            yield Finding(path, why)
    for at, rule in entries(tables):
        for threshold, value, floor, cost in below_floors(rule) if at[0] != "unsafe" else ():
            message = f"below the floor of {floor}: {cost}; to accept that, move the entry under unsafe: and give a why"
            yield Finding((*at, *threshold.split(".")), message, str(value))


ONLY_ICEBERG = "it is a Delta table: what is proven of it is a version, which is recorded, and readers name that"


def of_branches(suite: Suite) -> str:
    """The first key of a suite that needs branches or tags, which only Iceberg tables have; empty without one."""
    return next((key for key in ("pointer_table", "audit_tags") if getattr(suite, key)), "")


def suite_findings(suite: Suite, name: str, landed: Collection[str], delta: Collection[str] = ()) -> Iterator[Finding]:
    """Problems of a suite, and whether no schedule will ever run it.

    Args:
        suite: its valid parts.
        name: the file name without the extension.
        landed: the tables this project's streams write; empty: not known yet.
        delta: those of them that are Delta tables.
    """
    if suite.table in delta and (key := of_branches(suite)):
        yield Finding((key,), ONLY_ICEBERG, suite.table)
    if name != suite.table:
        yield Finding(("table",), f"a suite's file is named after its table: {suite.table}.yaml", suite.table)
    elif landed and suite.table not in landed:
        yield Finding(("table",), "no stream here writes this table", suite.table, warning=True)
    seen: dict[str, int] = {}
    for index, expectation in enumerate(suite.expectations):
        if expectation.id in seen:
            message = f"the same as expectation {seen[expectation.id] + 1}: same type, same kwargs"
            yield Finding(("expectations", index), message, expectation.type)
        seen.setdefault(expectation.id, index)
