"""Plans: what a run would do and its maximum cost. Nothing is called."""

from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Asking, Plan, Running, plan_of
from loopkit.views.plan.typical import ANSWER_TOKENS, Typical

__all__ = ["ANSWER_TOKENS", "Asking", "Plan", "Running", "Typical", "plan_of", "plan_text"]
