"""Statements say every bound themselves and quote every value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlglot

from lakeward.platform.errors import Internal
from lakeward.spec.model.policy import Policy
from lakeward.tables.act.statements import literal, rewrite, statements
from lakeward.tables.plan.model import Action, Rewrite

MB = 1 << 20
REWRITE = Rewrite("final", ("o=O'Hare", "o=x"), ("`o` = 'O\\'Hare'", "`o` = 'x'"), 96 * MB, 128 * MB, 6, 2, 60 * MB)


def test_partitions_are_joined_and_quoted_once_more():
    text = rewrite("nyc.flights", REWRITE, Policy(), "lake")
    assert text.startswith("CALL `lake`.`system`.`rewrite_data_files`(table => 'lake.nyc.flights', where => '")
    assert "(`o` = \\'O\\\\\\'Hare\\') OR (`o` = \\'x\\')" in text
    inner = sqlglot.parse_one(text.split("where => ")[1].split(", options")[0], dialect="spark").this
    assert sqlglot.parse_one(inner, dialect="spark").find(sqlglot.exp.Literal).this == "O'Hare"


def test_one_commit_unless_it_is_more_than_a_group():
    assert "partial-progress" not in rewrite("a.t", REWRITE, Policy(), "lake")
    big = Rewrite("final", ("",), (), 96 * MB, 128 * MB, 6, 2, 11 << 30)
    text = rewrite("a.t", big, Policy(), "lake")
    assert "'partial-progress.enabled', 'true'" in text
    assert "'partial-progress.max-failed-commits', '3'" in text
    assert "where" not in text


def test_delete_files_are_applied_by_the_policys_limits():
    text = rewrite("a.t", Rewrite("final", ("",), (), 96, 128, 6, 2, 60, delete_files=3), Policy(), "lake")
    assert "'delete-file-threshold', '5', 'delete-ratio-threshold', '0.1', 'remove-dangling-deletes', 'true'" in text


def test_a_moment_is_truncated_to_milliseconds():
    moment = datetime(2026, 3, 1, 12, 0, 0, 123999, tzinfo=timezone(timedelta(hours=1)))
    assert literal(moment) == "TIMESTAMP '2026-03-01 11:00:00.123+00:00'"


def test_every_planned_action_has_its_statements():
    at = datetime(2026, 3, 1, tzinfo=UTC)
    assert len(statements("a.t", Action("compact", "", rewrites=(REWRITE, REWRITE)), Policy(), "lake")) == 2
    assert "rewrite_manifests" in statements("a.t", Action("manifests", ""), Policy(), "lake")[0]
    with pytest.raises(Internal, match="has no statement"):  # it is a commit without an engine
        statements("a.t", Action("expire", "", older_than=at, retain_last=1), Policy(), "lake")


def test_text_cannot_leave_its_literal():
    assert literal("it's \\ x") == "'it\\'s \\\\ x'"


def test_each_statement_is_for_the_catalog_by_its_name():
    where = Rewrite(
        "final", ("m=2013-01",), ("`lake`.`system`.`months`(`ts`) = 516",), 96 * MB, 128 * MB, 6, 2, 60 * MB
    )
    for action in (
        Action("compact", "", rewrites=(where,)),
        Action("deletes", "", where=where.where),
        Action("manifests", ""),
        Action("metadata", "", properties={"a": "b"}),
    ):
        for text in statements("nyc.flights", action, Policy(), "prod"):
            assert "lake" not in text.replace("lakeward", ""), text
            assert "prod" in text
