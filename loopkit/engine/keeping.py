"""Kept artifacts: what work was made from, and whether it has to be repeated."""

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
"""The values that a prompt has for earlier work if there was none."""


def work_digest(program: Program, run: RunState) -> str:
    """The digest of everything that the active state's work depends on; raises TemplateError.

    Empty if the state always works.
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
    return hashlib.sha256(written.encode()).hexdigest()


def _needs_or_prompt(program: Program, run: RunState, state: State) -> object:
    """The values that the state needs, or else the text of its task."""
    if state.needed is None:
        return render(program, run, state.work_template, FIRST)
    needed = [program.template(f"{{{{ {path} }}}}") for path in state.needed]
    return [template.value(template_names(program, run, template)) for template in needed]


def is_kept(program: Program, run: RunState) -> bool:
    """Whether the active state keeps what it made at its last work.

    If a template can't be filled in, it does not, so that its work reports why.
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
    """Whether the active state wrote this at its last work, and it was not changed since.

    A version that a person picked as the best may be earlier. Work that has begun goes on.
    """
    by, _ = run.made_from.get(artifact.name, ("", ""))
    has_begun = f"{run.state}:{run.visit}:author" in run.tasks
    is_last = (artifact.author, artifact.attempt) == (by, run.attempts.get(by))
    return by == run.state and is_last and not has_begun


def last_work(run: RunState, kept: Kept) -> Worked:
    """The work with which a kept state goes on: the facts of its last work."""
    facts = dict(run.facts[kept.state])
    return Worked(state=kept.state, visit=kept.visit, outcome="done", facts=facts)
