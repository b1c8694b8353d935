"""Plans: what a run would do and its maximum cost. Nothing is called."""

from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Asking, Plan, Running, plan_of

__all__ = ["Asking", "Plan", "Running", "plan_of", "plan_text"]
