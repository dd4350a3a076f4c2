"""Desired state, differences and plans: generic and pure."""

from netfw.plan.diff import Difference, diff
from netfw.plan.plan import Operation, Plan, Stage
from netfw.plan.update import Outcome, Update

__all__ = ["Difference", "Operation", "Outcome", "Plan", "Stage", "Update", "diff"]
