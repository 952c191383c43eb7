"""Policies of Apache Polaris as an entry of conf/tables.yaml."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from lakeward.platform.errors import SpecError
from lakeward.spec.model.polaris import entry, imported
from lakeward.spec.model.tables import Tables, resolve_policy


def policy(kind: str, content: Any, *, as_text: bool = True) -> dict[str, Any]:
    content = {"version": "2025-02-03", "enable": True, **content}
    return {"policy-type": f"system.{kind}", "name": "p", "content": json.dumps(content) if as_text else content}


ALL = [
    policy("data-compaction", {"target_file_size_bytes": 134217728, "config": {"compaction_strategy": "bin-pack"}}),
    policy("metadata-compaction", {"enable": False, "config": {"spec_id": 1}}, as_text=False),
    policy(
        "snapshot-expiry", {"config": {"min_snapshot_to_keep": 7, "max_snapshot_age_days": 2, "max_ref_age_days": 3}}
    ),
    policy("orphan-file-removal", {"max_orphan_file_age_in_days": 9, "locations": ["s3://b/t"]}),
    {"policy-type": "acme.masking", "content": "{}"},
]


@pytest.mark.parametrize("wrap", [lambda all_: all_, lambda all_: {"applicable-policies": all_}], ids=["list", "api"])
def test_the_entry_is_what_the_policies_say_and_names_the_rest(wrap):
    found = imported(json.dumps(wrap(ALL)), "nyc.*")
    text = entry(found, "nyc.*")
    tables = Tables.model_validate(YAML(typ="safe").load(text))
    resolved = resolve_policy(tables, "nyc.flights").policy
    assert str(resolved.compact.target_size) == "128MB"
    assert (resolved.compact.enabled, resolved.manifests.enabled) == (True, False)
    assert (str(resolved.expire.older_than), resolved.expire.min_snapshots) == ("2d", 7)
    assert (resolved.orphans.enabled, str(resolved.orphans.older_than)) == (True, "9d")
    assert found.unmapped == [
        'system.data-compaction: compaction_strategy = "bin-pack"',
        "system.metadata-compaction: spec_id = 1",
        "system.snapshot-expiry: max_ref_age_days = 3",
        'system.orphan-file-removal: locations = ["s3://b/t"]',
        "acme.masking: only system.data-compaction, system.metadata-compaction, system.snapshot-expiry, "
        "system.orphan-file-removal are read",
    ]
    assert all(f"# not mapped: {each}" in text for each in found.unmapped)


def test_a_value_below_a_floor_is_named_not_taken():
    found = imported(json.dumps({"policy": policy("snapshot-expiry", {"config": {"min_snapshot_to_keep": 1}})}), "a.b")
    assert found.settings == {"expire": {"enabled": True}}
    assert found.unmapped[0].startswith("expire.min_snapshots = 1: below the floor of 5")


@pytest.mark.parametrize(
    ("key", "value"),
    [("max_snapshot_age_days", "2"), ("max_snapshot_age_days", -1), ("min_snapshot_to_keep", 2.5), ("key", True)],
)
def test_what_makes_no_sense_is_named(key, value):
    found = imported(json.dumps(policy("snapshot-expiry", {"config": {key: value}})), "a.b")
    assert found.unmapped == [f"system.snapshot-expiry: {key} = {json.dumps(value)}"]


def test_another_version_is_not_guessed():
    found = imported(json.dumps(policy("data-compaction", {"version": "2030-01-01"})), "a.b")
    assert (found.settings, len(found.unmapped)) == ({}, 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "This is not JSON"),
        ('{"enable": true}', "This is not a policy of Apache Polaris"),
        ("[1]", "This is not a policy of Apache Polaris"),
        ('{"policy-type": "system.data-compaction", "content": "x"}', "The content of system.data-compaction is wrong"),
        ('{"policy-type": "system.data-compaction", "content": {"enable": "yes"}}', "The content of system.data"),
    ],
)
def test_what_is_no_policy_is_refused(text, what):
    with pytest.raises(SpecError, match=what.replace(".", r"\.")):
        imported(text, "nyc.*")


def test_a_glob_that_is_none_is_refused():
    with pytest.raises(SpecError, match="is wrong"):
        imported(json.dumps(ALL[0]), "flights")
