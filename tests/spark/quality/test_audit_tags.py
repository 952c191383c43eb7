"""What was proven at the end of a day stays readable, under a tag that a suite asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from lakeward.quality.publishing.verified import Tag, _by_spark
from lakeward.registry.schema import verifications


@pytest.mark.campaign(held_by="test_through_spark_the_tag_is_the_same_and_stays_where_it_is")
def test_a_day_that_is_over_has_a_tag_of_what_was_proven_then(table) -> None:
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    table.suite(more="audit_tags: 7d\n")
    proven = table.append(rows=3)
    now = datetime.now(UTC)
    table.check()
    with table.registry() as connection:
        connection.execute(
            update(verifications)
            .where(verifications.c.table == table.name)
            .values(at=now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(minutes=5))
        )
    table.append(rows=2)
    assert table.check()["verdict"] == "pass"
    table.append(rows=1)
    table.check()
    assert table.verified == table.head
    (tag,) = table.sql("SELECT * FROM {t}.refs WHERE type = 'TAG'")
    assert (tag.snapshot_id, tag.max_reference_age_in_ms) == (proven, 604_800_000)
    assert any("Branch verified moved" in text for text in table.told)
    table.expire_all_but_the_head()
    assert len(table.sql(f"SELECT * FROM {{t}} VERSION AS OF '{tag.name}'")) == 3


def test_through_spark_the_tag_is_the_same_and_stays_where_it_is(table) -> None:
    first, second = table.append(), table.append()
    for snapshot in (first, second):
        _by_spark(table.spark, table.name, second, Tag("verified-2026-11-21", snapshot, timedelta(days=7)))
    (tag,) = table.sql("SELECT * FROM {t}.refs WHERE type = 'TAG'")
    assert (tag.snapshot_id, tag.max_reference_age_in_ms) == (first, 604_800_000)
    assert table.verified == second
