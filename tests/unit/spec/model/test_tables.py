"""Policies: class, defaults, entries, unsafe; each value with its origin."""

from __future__ import annotations

import pytest

from lakeward.spec.model.policy import CLASS_DEFAULTS, FLOORS, REASONS, TABLE_CLASSES, UNSET, Compact, Policy
from lakeward.spec.model.tables import Tables, below_floors, leaves, merged, resolve_policy
from lakeward.spec.model.types import Size


def test_a_table_without_an_entry_has_the_defaults_of_its_class():
    resolved = resolve_policy(Tables(), "n.t", "upsert-stream")
    assert resolved.policy.class_ == "upsert-stream"
    assert resolved.policy.expire.older_than == "3d"
    assert resolved.policy.compact.min_fragments == 50
    assert resolved.origins["expire.older_than"].startswith("default of upsert-stream: ")
    assert resolved.origins["compact.min_fragments"].startswith("default: ")


def test_later_entries_win_and_unsafe_wins_over_all():
    tables = Tables.model_validate(
        {
            "defaults": {"compact": {"cooldown": "40m"}, "observe": "10m"},
            "policies": [
                {"match": "n.*", "compact": {"min_fragments": 20, "cooldown": "50m"}},
                {"match": "n.t", "compact": {"min_fragments": 30}},
                {"match": "other.*", "compact": {"min_fragments": 99}},
            ],
            "unsafe": [{"match": "n.t", "why": "a test", "expire": {"older_than": "1m"}}],
        }
    )
    resolved = resolve_policy(tables, "n.t")
    assert resolved.policy.compact.min_fragments == 30
    assert resolved.policy.compact.cooldown == "50m"
    assert resolved.policy.observe == "10m"
    assert resolved.policy.expire.older_than == "1m"
    assert resolved.origins["compact.min_fragments"] == "conf/tables.yaml policies[1] (n.t)"
    assert resolved.origins["observe"] == "conf/tables.yaml defaults"
    assert resolved.origins["expire.older_than"] == "conf/tables.yaml unsafe[0] (a test)"


def test_an_entry_may_name_the_class():
    tables = Tables.model_validate({"policies": [{"match": "n.t", "class": "static"}]})
    assert resolve_policy(tables, "n.t").policy.expire.older_than == "30d"
    assert resolve_policy(tables, "n.u").policy.class_ == "append-stream"


def test_every_threshold_has_a_reason_and_every_floor_a_threshold():
    paths = {path for path, _ in leaves(Policy().document())} | set(UNSET)
    assert paths == set(REASONS)
    assert set(FLOORS) <= paths


@pytest.mark.parametrize("name", TABLE_CLASSES)
def test_no_class_has_a_default_below_a_floor(name):
    policy = Policy.model_validate(merged(Policy().document(), CLASS_DEFAULTS[name]))
    assert below_floors(policy) == []


@pytest.mark.parametrize(
    ("compact", "words"),
    [
        ("small_file_ratio: 1.0", "this must be less than 1"),
        ("fragment_ratio: 0", "this must be more than 0"),
        ("small_file_ratio: '0.5'", "this must be a number"),
        ("fragment_bytes_ratio: 0.5", "this must be at least 1"),
        ("fragment_bytes_ratio: 1e999", "this must be a number"),
        ("max_group_size: 16MB", "below the floor of 1GB"),
        ("max_size: 16MB", "below the floor of 1GB"),
        ("max_duration: 1s", "below the floor of 5m"),
        ("target_size: 11GB", "more than max_group_size (10GB)"),
        ("target_size: 2GB, max_group_size: 1GB", "more than max_group_size (1GB)"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(project, compact, words):
    said = [each.text() for each in project({"conf/tables.yaml": f"defaults: {{compact: {{{compact}}}}}"}).problems]
    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("defaults: {compact: {max_group_size: 100GB}}\npolicies: [{match: n.*, compact: {target_size: 20GB}}]", None),
        (
            "defaults: {compact: {max_group_size: 1GB}}\npolicies: [{match: n.*, compact: {target_size: 2GB}}]",
            ("policies[0].compact.target_size", "more than max_group_size (1GB) of defaults: no file of this size"),
        ),
        (
            "defaults: {compact: {target_size: 2GB}}\npolicies: [{match: '[!a]*.x', compact: {max_group_size: 1GB}}]",
            ("policies[0].compact.max_group_size", "less than target_size (2GB) of defaults: no file of that size"),
        ),
        ("defaults: {compact: {target_size: 20GB}}\npolicies: [{match: '*.*', compact: {max_group_size: 90GB}}]", None),
        ("policies: [{match: a.*, compact: {target_size: 2GB}}, {match: b.*, compact: {max_group_size: 1GB}}]", None),
        (
            "policies: [{match: 'n.*', compact: {target_size: 2GB}}, {match: '*.t', compact: {max_group_size: 1GB}}]",
            ("policies[1].compact.max_group_size", "less than target_size (2GB) of policies[0]"),  # by n.t alone
        ),
    ],
)
def test_sizes_are_compared_as_they_meet_in_a_table(project, minimal, text, told):
    stream = minimal.replace("nyc.flights", "n.t")
    errors = [
        each
        for each in project({"conf/streams/a.yaml": stream, "conf/tables.yaml": text}).problems
        if each.severity == "error"
    ]
    assert [each.path for each in errors] == ([told[0]] if told else [])
    assert not told or told[1] in errors[0].message


def test_the_target_size_follows_the_table():
    compact = Compact()
    assert compact.target_for(0) == Size("128MB").bytes
    assert compact.target_for(Size("64GB").bytes) == Size("256MB").bytes
    assert compact.target_for(Size("2TB").bytes) == Size("512MB").bytes
    assert compact.target_for(0, table_property=7) == 7
    assert Compact(target_size=Size("64MB")).target_for(0, table_property=7) == Size("64MB").bytes


def test_merging_changes_neither_side():
    below, above = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merged(below, above) == {"a": {"b": 1, "c": 2}}
    assert (below, above) == ({"a": {"b": 1}}, {"a": {"c": 2}})
