"""What the registry and a table's own properties forbid."""

from __future__ import annotations

from typing import Any

from lakeward.spec.pointer import OF
from lakeward.tables.needs import needs_of, surroundings


def test_a_table_that_shows_what_is_proven_of_another_is_left_alone(registry: Any, facts: Any, chain: Any, now) -> None:
    around = surroundings(registry)
    plain, _ = needs_of(registry, facts(chain(1)), around, now, has_suite=False)
    shown, _ = needs_of(registry, facts(chain(1), **{OF: "nyc.delays"}), around, now, has_suite=False)
    assert plain.forbidden == "" and "of nyc.delays" in shown.forbidden
