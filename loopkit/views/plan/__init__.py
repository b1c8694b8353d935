"""Plans: what a run would do and its maximum cost. Nothing is called."""

from loopkit.views.plan.planned import Asking, Plan, Running, plan_of
from loopkit.views.plan.shown import shown

__all__ = ["Asking", "Plan", "Running", "plan_of", "shown"]
