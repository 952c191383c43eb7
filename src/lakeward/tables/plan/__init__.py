"""The pure planner: facts, policy, needs and history in; actions with why, and non-actions with why, out."""

from __future__ import annotations

from lakeward.tables.plan.cost import Pace
from lakeward.tables.plan.model import Action, Clamp, History, Needs, NotPlanned, Plan, Rewrite
from lakeward.tables.plan.planner import ORDER, plan

__all__ = ["ORDER", "Action", "Clamp", "History", "Needs", "NotPlanned", "Pace", "Plan", "Rewrite", "plan"]
