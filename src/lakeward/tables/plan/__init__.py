"""The maintenance planner (pure): facts, policy, needs and history in; due and not due actions with reasons out."""

from __future__ import annotations

from lakeward.tables.plan.cost import Pace
from lakeward.tables.plan.model import Action, History, Needs, NotPlanned, Plan, Rewrite, SnapshotPin
from lakeward.tables.plan.planner import ORDER, plan

__all__ = ["ORDER", "Action", "History", "Needs", "NotPlanned", "Pace", "Plan", "Rewrite", "SnapshotPin", "plan"]
