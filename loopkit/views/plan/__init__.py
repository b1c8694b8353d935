"""Plans: what a run would do and its maximum cost. Nothing is called."""

from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Plan, plan_of
from loopkit.views.plan.typical import ANSWER_TOKENS

__all__ = ["ANSWER_TOKENS", "Plan", "plan_of", "plan_text"]
