"""Which catalog of a deployment a table is in. Pure.

A table of the default catalog is recorded as `sales.orders`, a table of a further one as `staging.sales.orders`.
"""

from __future__ import annotations

from lakeward.platform.runtime import Lake
from lakeward.spec.sql.names import catalog_in


def further_of(lake: Lake, table: str) -> str | None:
    """The name of the further catalog that a table is in; None for a table of the default one."""
    return catalog_in(table, [each.name for each in lake.others]) if lake.others else None


def lake_of(lake: Lake, table: str) -> Lake:
    """The catalog that a table is in."""
    further = further_of(lake, table)
    return next((each for each in lake.others if each.name == further), lake)


def prefix_in(lake: Lake, table: str) -> str:
    """What SQL has before the recorded name of a table: the default catalog; empty if the name has its catalog."""
    return lake.name if lake_of(lake, table) is lake else ""
