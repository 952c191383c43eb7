"""What blocks a stream in a Delta table, case by case."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from lakeward.connectors.commit_protocol.ancestry import Ancestry, Finding, Link
from lakeward.connectors.commit_protocol.position import Position
from lakeward.connectors.delta.check import TableState, check_table

AT = Position(seq=5, query_id="q", batch=4, end={"source": "50"}, snapshot=9, snapshot_seq=9)
TABLE = TableState("s", "ns.t", 9, True, AT.to_json(), AT, Ancestry(Finding.MET))
STRAY = Ancestry(Finding.MET, walked=(Link(8, 8, 7, "STREAMING UPDATE", "s/4/abc"),))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TABLE, None),
        (replace(TABLE, ancestry=Ancestry(Finding.EXPIRED)), None),
        (replace(TABLE, raw=None, position=None), None),
        (replace(TABLE, supported=False), "no-domains"),
        (replace(TABLE, raw=None, position=None, supported=False), "no-domains"),
        (replace(TABLE, raw=None, position=None, ancestry=STRAY), "no-position"),
        (replace(TABLE, ancestry=STRAY), "no-position"),
        (replace(TABLE, ancestry=Ancestry(Finding.MET, walked=(Link(9, 9, 8, "OPTIMIZE", "other/4/abc"),))), None),
        (replace(TABLE, intact=False), "commit-overwritten"),
        (replace(TABLE, unreadable={"delta.appendOnly": "ja"}), "property-unreadable"),
        (replace(TABLE, unreadable={"delta.appendOnly": "ja"}, supported=False), "property-unreadable"),
        (replace(TABLE, ancestry=Ancestry(Finding.ROLLED_BACK), newest_seq=2), "rolled-back"),
        (replace(TABLE, ancestry=Ancestry(Finding.REPLACED)), "table-replaced"),
    ],
)
def test_each_case_has_its_reason(state: TableState, reason: str | None) -> None:
    found = check_table(state)
    assert (found.reason if found else None) == reason
    assert found is None or "lakeward" in found.next


def test_a_rollback_names_what_is_lost_and_the_version_that_has_it() -> None:
    found = check_table(replace(TABLE, ancestry=Ancestry(Finding.ROLLED_BACK), newest_seq=2))
    assert found is not None
    assert "seq 3 to 5" in found.why
    assert "TO VERSION AS OF 9" in found.next


@pytest.mark.parametrize(
    ("state", "statement"),
    [
        (
            replace(TABLE, ancestry=Ancestry(Finding.REPLACED)),
            "RESTORE TABLE spark_catalog.ns.`date` TO VERSION AS OF 9",
        ),
        (
            replace(TABLE, ancestry=Ancestry(Finding.ROLLED_BACK)),
            "RESTORE TABLE spark_catalog.ns.`date` TO VERSION AS OF 9",
        ),
        (replace(TABLE, ancestry=STRAY), "RESTORE TABLE spark_catalog.ns.`date` TO VERSION AS OF 7"),
        (
            replace(TABLE, supported=False),
            "ALTER TABLE spark_catalog.ns.`date` SET TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')",
        ),
    ],
)
def test_the_statement_for_a_table_named_by_a_keyword_is_one_word_that_no_shell_expands(
    state: TableState, statement: str
) -> None:
    found = check_table(replace(state, table="ns.date"))
    assert found is not None
    assert shlex.split(found.next)[:4] == ["lakeward", "sql", "--write", statement]
    assert not found.next.startswith('lakeward sql --write "'), "a shell runs what is in backticks within quotes"
