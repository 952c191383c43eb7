"""The page of policies is the code's, and every threshold has its reason there."""

from __future__ import annotations

from pathlib import Path

from lakeward.spec.docs.policy_page import page
from lakeward.spec.model.policy import CLASS_DEFAULTS, FLOORS, REASONS, UNSET, Policy
from lakeward.spec.model.tables import leaves

ROOT = Path(__file__).parents[2]


def test_the_page_of_policies_is_made_from_the_code() -> None:
    assert (ROOT / "docs/reference/policies.md").read_text() == page(), "make schemas"


def test_every_threshold_has_a_reason_and_every_floor_a_threshold() -> None:
    known = {path for path, _ in leaves(Policy().document())} | set(UNSET)
    assert set(REASONS) == known
    assert set(FLOORS) <= known
    assert all({path for path, _ in leaves(changed)} <= known for changed in CLASS_DEFAULTS.values())
