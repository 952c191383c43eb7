"""Whose a table is decides what maintenance may do to it."""

from __future__ import annotations

import pytest

from lakeward.spec.model.tables import Tables, resolve_policy
from lakeward.tables.context import class_of


@pytest.mark.parametrize(
    ("table", "writers", "streams", "external", "expected"),
    [
        ("n.t", {}, (), False, "append-batch"),
        ("n.t", {}, (), True, "foreign"),
        ("lakeward.quality_results", {}, (), True, "append-batch"),
        ("n.t", {}, ("s",), True, "append-stream"),
        ("n.t", {"n.t": "append"}, (), True, "append-stream"),
        ("n.t", {"n.t": "upsert"}, (), True, "upsert-stream"),
    ],
)
def test_the_class_follows_from_the_writers_and_the_catalog(table, writers, streams, external, expected) -> None:
    assert class_of(table, writers, streams, external=external) == expected


def test_a_table_of_others_is_not_maintained_by_default() -> None:
    assert not resolve_policy(Tables(), "n.t", "foreign").policy.maintain
    assert resolve_policy(Tables(), "n.t", "append-batch").policy.maintain
    own = Tables.model_validate({"policies": [{"match": "n.*", "maintain": True}]})
    assert resolve_policy(own, "n.t", "foreign").policy.maintain
    assert not resolve_policy(own, "m.t", "foreign").policy.maintain
