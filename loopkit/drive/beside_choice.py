"""The parts of an answer beside its choice: origins of findings, a raised revision total."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.repair.refusals import refuse_limits
from loopkit.engine.events import Considered, HumanAnswer
from loopkit.engine.macrostep import Engine
from loopkit.engine.reclassification import NotReclassified, apply_answer, consider
from loopkit.engine.revisions import cap_of
from loopkit.engine.state import RunState
from loopkit.machine.edges import TOTAL

TOTAL_LIMIT = "total_revisions"


def consider_answer(
    engine: Engine, run: RunState, answer: HumanAnswer
) -> tuple[Considered | None, RunState]:
    """What an answer decides about, and the run with its changes; raises AnswerRefused."""
    if answer.limits:
        _refuse_limits(engine, run, answer.limits)
    try:
        about = consider(engine.program.graph.origins, run.last_report, answer.origins)
    except NotReclassified as error:
        raise AnswerRefused(str(error), "origins") from error
    ahead = run.copy()
    apply_answer(ahead, answer, about)
    return about, ahead


def _refuse_limits(engine: Engine, run: RunState, limits: Mapping[str, object]) -> None:
    """Refuse everything but a raised revision total with which the run can't get stuck."""
    program, total = engine.program, limits.get(TOTAL_LIMIT)
    if others := sorted(limits.keys() - {TOTAL_LIMIT}):
        message = ", ".join(f"`limits.{name}`" for name in others)
        raise AnswerRefused(
            f"an answer can raise `limits.{TOTAL_LIMIT}` only, not {message}", "limits"
        )
    if TOTAL not in program.graph.caps:
        raise AnswerRefused(
            f"the machine has no `limits.{TOTAL_LIMIT}` that could be raised", "limits"
        )
    now = cap_of(program, run, TOTAL)
    if not isinstance(total, int) or total <= now:
        message = f"`limits.{TOTAL_LIMIT}` is {now} now, and an answer can only raise it"
        raise AnswerRefused(message, "limits")
    try:
        refuse_limits(program.machine, run, limits)
    except NotRunnable as error:
        raise AnswerRefused(str(error), "limits") from error
