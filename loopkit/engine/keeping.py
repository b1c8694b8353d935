"""Kept artifacts: what work was made from, and whether it has to be done again."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from loopkit.engine.events import Artifact, Kept, Worked
from loopkit.engine.state import RunState
from loopkit.engine.template_values import choose_agent, render, template_names
from loopkit.language import State, WorkingState
from loopkit.language.template import TemplateError
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program

FIRST = {"feedback": "", "previous": "", "revision": 0, "max_revisions": 0}
"""What a prompt knows of earlier work where there was none."""


def work_digest(program: Program, run: RunState) -> str:
    """One digest of all that the work of the active state depends on; raises TemplateError.

    Empty where it does not matter, because the state always works.
    """
    if run.state not in program.graph.keeping:
        return ""
    state = program.machine.states[run.state]
    asked = program.machine.agents.get(choose_agent(program, run, run.state) or "")
    parts = (
        _needs_or_prompt(program, run, state),
        state.model_dump(mode="json", exclude={"needs", *WorkingState.model_fields}),
        asked and asked.model_dump(mode="json", exclude_defaults=True),
    )
    written = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode(errors="surrogatepass")).hexdigest()


def _needs_or_prompt(program: Program, run: RunState, state: State) -> object:
    """What the state needs, or else the text that tells it what to do."""
    if state.needed is None:
        return render(program, run, state.work_template, **FIRST)
    needed = [program.template(f"{{{{ {path} }}}}") for path in state.needed]
    return [template.value(template_names(program, run, template)) for template in needed]


def is_kept(program: Program, run: RunState) -> bool:
    """Whether the active state keeps what it made at its last work.

    Where a text can't be filled in it does not, so that its work tells why.
    """
    if run.is_revision or run.state in run.pending or not run.made_from:
        return False
    artifact = run.artifacts.get(artifact_of(program.machine, run.state) or "")
    if artifact is None or not _is_last_work(run, artifact):
        return False
    with suppress(TemplateError):
        return run.made_from[artifact.name] == (run.state, work_digest(program, run))
    return False


def _is_last_work(run: RunState, artifact: Artifact) -> bool:
    """Whether the active state wrote this at its last work, and nobody has changed it since.

    What a person chose as the best may be an earlier version. Where work has begun, it goes on.
    """
    by, _ = run.made_from.get(artifact.name, ("", ""))
    has_begun = f"{run.state}:{run.visit}:author" in run.tasks
    is_last = (artifact.author, artifact.attempt) == (by, run.attempts.get(by))
    return by == run.state and is_last and not has_begun


def last_work(run: RunState, kept: Kept) -> Worked:
    """What a kept state goes on with: what its last work left for guards."""
    facts = dict(run.facts[kept.state])
    return Worked(state=kept.state, visit=kept.visit, outcome="done", facts=facts)
