"""What a run of a machine would do and cost, before it is started; nothing is executed."""

from loopkit.views.plan.planned import Asking, Plan, Running, plan_of
from loopkit.views.plan.shown import shown

__all__ = ["Asking", "Plan", "Running", "plan_of", "shown"]
