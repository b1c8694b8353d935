"""An agent state: the prompt, the call, the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from loopkit.agents.players import FunctionAgentPort
from loopkit.agents.port import AgentPort, OutsideAgentPort, Reply, Request
from loopkit.drive.active import ActiveRun
from loopkit.drive.calls import CallSeries, call, callees_for, exchanges_of, find_stored_reply
from loopkit.drive.deliveries import await_delivery
from loopkit.drive.isolation import files_reader, project_folder, watch_output, workspace
from loopkit.drive.replies import ask_agent, conversation, faulty_artifact, is_answer
from loopkit.drive.retries import CallFailed, SessionLost
from loopkit.drive.tools import (
    Answered,
    Conversation,
    converse,
    counts_as_answer,
    with_calls,
)
from loopkit.engine.events import Replied, Worked
from loopkit.engine.feedback import is_echo
from loopkit.engine.macrostep import work_digest
from loopkit.engine.payloads import Artifact
from loopkit.engine.records import Usage
from loopkit.engine.revisions import can_come_again
from loopkit.engine.state import Exchange, last_turns
from loopkit.engine.template_values import (
    choose_agent,
    last_version,
    plain_artifact,
    render,
    template_names,
)
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, facts_of
from loopkit.language.states.kinds import AgentState
from loopkit.machine.graph import ECHO, NO_AGENT, REFUSED
from loopkit.text import one_line
from loopkit.text.markdown import as_code_block
from loopkit.values import NOTHING

REPEATS_FEEDBACK = "the answer repeats the feedback instead of doing the task"
NO_CHANGE = "So far, nothing is changed."
"""Sent if an author has reverted all of its changes in a folder."""
LONGEST_WORD = 60
"""Characters that are shown of a word for which there is no agent."""


async def perform_agent(active: ActiveRun, name: str, state: AgentState) -> Worked:
    """Ask the agent; a content fault is part of the artifact, for the judging state to find."""
    program = active.program
    run = active.state
    plan = active.engine.plans[name]
    chosen = choose_agent(program, run, name)
    attempt = run.attempts.get(name, 0) + 1
    if chosen is None:
        choice = state.choice
        assert choice is not None
        known = ", ".join(map("`{}`".format, choice.of))
        word = _unknown_word(active, state)
        fault = f"`{choice.from_}` is `{word}`, for which there is no agent; known: {known}"
        lost = faulty_artifact(state.output_at(name), name, attempt, NO_AGENT, fault)
        return _work_event(active, name, lost, None)
    asked = plan.agents[chosen]
    # Before the call, so that a text that can't be filled in costs nothing.
    source = work_digest(program, run) if name in program.graph.keeping else ""
    try:
        is_played = isinstance(active.agents[chosen], FunctionAgentPort)
        is_program = asked.agent.works_on_files and not is_played
        folder = project_folder(active, asked.workspace) or await workspace(
            active, asked.workspace, writes=is_program or asked.output.is_left
        )
        series = _series(active, name, state, chosen, folder, is_program=is_program)
        talk = Conversation(active, name, chosen, asked, series)
        try:
            answered = await _answer(talk, state, folder)
        except SessionLost:
            # The run has forgotten the session, and without one there is none to lose.
            answered = await _answer(talk, state, folder)
        artifact = talk.artifact_of(answered.reply)
        if answered.fault:
            artifact = artifact.replace(
                fault=answered.fault,
                fault_code=answered.fault_code,
                fault_findings=answered.findings,
                data=None,
                is_data=False,
            )
        elif not (artifact.is_data or artifact.tree) and is_echo(program, run, name, artifact.text):
            artifact = artifact.replace(fault=REPEATS_FEEDBACK, fault_code=ECHO)
    except CallFailed as failed:
        if failed.failure.error_class != "content":
            raise
        # The agent itself says that it has no answer: a content fault like an empty one.
        artifact = faulty_artifact(asked.output, name, attempt, REFUSED, failed.failure.message)
    work = _work_event(active, name, artifact, asked.datatype)
    return work.replace(made_from=source) if source and not work.error else work


async def _answer(talk: Conversation, state: AgentState, folder: Path) -> Answered:
    """The answer, stored before or given now; raises CallFailed, LimitReached and SessionLost."""
    active, asked, series = talk.active, talk.asked, talk.work
    final = find_stored_reply(active, series, partial(_is_usable, talk))
    if final is not None and not (talk.has_called or (talk.goes_on and talk.rounds)):
        return Answered(final)
    turns = turns_to_send(talk)
    request = _request(talk, state, folder, turns)
    port = active.agents[talk.agent]
    if isinstance(port, OutsideAgentPort):
        await await_delivery(active, series, asked, request, port)
    if asked.output.is_left:
        written = await watch_output(active, folder, asked.output, series.task)
        series = series.replace(written=written)
    if talk.goes_on:
        return await converse(talk, turns, request)
    return Answered(await call(active, series, request, hold=True))


def _is_usable(talk: Conversation, reply: Replied) -> bool:
    """Whether a reply that could not be used before a resume can be now."""
    artifact = talk.artifact_of(reply)
    if artifact.fault or (
        artifact.missing and _missing_for_guards(talk.active, talk.state, artifact)
    ):
        return False
    return not talk.asked.tools or counts_as_answer(talk, exchanges_of(talk.active, talk.work))


def _unknown_word(active: ActiveRun, state: AgentState) -> str:
    """The word for which there is no agent; empty if there is one."""
    if (choice := state.choice) is None:
        return ""
    word = render(active.program, active.state, choice.template)
    return "" if word in choice.of else one_line(word, LONGEST_WORD)


def _work_event(
    active: ActiveRun, name: str, artifact: Artifact, datatype: DataType | None
) -> Worked:
    error = artifact.fault
    if artifact.missing and not error:
        error = _missing_for_guards(active, name, artifact)
    is_caught = error and active.program.graph.on(name, "content")
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome="content" if is_caught else "done",
        facts=facts_of(artifact.data, datatype) if datatype and artifact.is_data else NOTHING,
        artifact=artifact,
        error=error,
    )


def _missing_for_guards(active: ActiveRun, name: str, artifact: Artifact) -> str:
    """Why the state's own guards can't read an infeasible answer; empty if they can."""
    names = active.program.guard_names
    read = {
        fact.removeprefix(f"{name}.").partition(".")[0]
        for edge in active.program.graph.on(name, "done")
        for fact in names.get(edge.id, ())
    }
    lost = " and ".join(f"`{field}`" for field in artifact.missing if field in read)
    return f"it can't be done, and the answer has no usable {lost}" if lost else ""


def _series(
    active: ActiveRun, name: str, state: AgentState, chosen: str, folder: Path, *, is_program: bool
) -> CallSeries:
    asked = active.engine.plans[name].agents[chosen]
    port = active.agents[chosen]
    leaves_files = is_program and active.program.graph.judged and not asked.output.is_whole_folder
    choice = state.choice
    # Reported where one of `else` is asked: a word of the input, which never changes, only once.
    is_else = choice is not None and choice.else_ is not None
    is_news = choice is None or not choice.is_of_input or active.state.visits[name] == 1
    return CallSeries(
        task=f"{name}:{active.state.visit}:author",
        callees=asked.callees or callees_for(active, asked.agent, name),
        # Somebody outside costs nothing, also if a scenario or a function plays them.
        quote=port.quote if asked.role == "author" else lambda _: Usage(),
        ask=partial(_ask, port, asked.agent),
        ready=port.ready if asked.is_model else None,
        files=files_reader(active, folder, asked.output) if leaves_files else None,
        instead_of=_unknown_word(active, state) if is_else and is_news else "",
    )


def _request(
    talk: Conversation, state: AgentState, folder: Path, turns: Sequence[Exchange]
) -> Request:
    """The first request, with the prompt after these turns."""
    active, name, asked, agent = talk.active, talk.state, talk.asked, talk.asked.agent
    prompt = author_prompt(active, name, state, kept=bool(turns))
    names: dict[str, object] = {}
    for template in asked.templates:
        # One that continues a session sees only its id.
        names |= template_names(active.program, active.state, template)
    return Request(
        agent=talk.agent,
        place=name,
        role=asked.role,
        messages=conversation(turns, prompt, active.state.tasks),
        prompt=prompt,
        names=names,
        input=active.state.input,
        schema=asked.schema,
        folder=folder,
        session=turns[-1].reply.session if turns else None,
        whole_prompt=partial(author_prompt, active, name, state, kept=False) if turns else None,
        begins_anew=agent.begins_anew,
        is_left=asked.output.is_left,
        is_sent_again=_is_sent_again(talk),
    )


async def _ask(port: AgentPort, agent: Agent, request: Request) -> Reply:
    reply = await ask_agent(port, agent, request)
    return with_calls(agent, request, reply) if isinstance(agent, ModelAgent) else reply


def turns_to_send(talk: Conversation) -> Sequence[Exchange]:
    """The turns of a kept session that are sent again, oldest first, before the work in hand.

    Where only the last ones are kept, the newest one that states the task comes before them.
    """
    agent = talk.asked.agent
    run = talk.active.state
    turns = talk.turns
    if agent.session == "fresh":
        return ()
    if known := len(talk.rounds):
        turns = turns[:-known]
    if turns and not agent.is_sent_turns and not (agent.goes_on and turns[-1].reply.session):
        # A program that can't resume its session remembers nothing of it.
        return ()
    if agent.turns_kept is None:
        return turns
    newest = last_turns(turns, agent.turns_kept)
    opening = newest[0][0].opening if newest else None
    if opening is not None and opening is newest[-1][0].opening:
        newest = [list(run.tasks[opening.task].exchanges), *newest]
    return [exchange for turn in newest for exchange in turn]


def _is_sent_again(talk: Conversation) -> bool:
    """Whether the next call of the conversation may begin with this whole request."""
    agent, kept = talk.asked.agent, talk.asked.agent.turns_kept
    if agent.session == "fresh" or not agent.is_sent_turns:
        return False
    if kept is not None and len(last_turns(talk.turns, kept)) >= kept:
        # The oldest turn that is sent now will be left out then.
        return False
    return can_come_again(talk.active.program, talk.active.state, talk.state)


def author_prompt(active: ActiveRun, name: str, state: AgentState, *, kept: bool) -> str:
    """The prompt to send: the template filled in, or in a kept session the feedback alone."""
    run, program = active.state, active.program
    if not (feedback := run.feedback_for(name)):
        return render(program, run, state.prompt)
    named = program.template(state.prompt).names
    if all(each.hides_previous for each in run.pending[name]):
        prompt = render(program, run, state.prompt)
        return prompt if "feedback" in named else f"{feedback}\n\n{prompt}"
    edge = program.graph.by_id.get(run.entered_by or "")
    last = last_version(program, run)
    is_edited = last is not None and last.edited
    # A kept session knows its own last version, but not the edits of a person.
    is_known = kept and not is_edited
    if kept and edge is not None and edge.back:
        parts = ["" if is_known else _previous_version(active, last), feedback]
        return "\n\n".join(filter(None, parts))
    parts = [render(program, run, state.prompt).rstrip("\n")]
    if "previous" not in named and not is_known:
        parts.append(_previous_version(active, last))
    if "feedback" not in named:
        parts.append(feedback)
    return "\n\n".join(filter(None, parts))


def _previous_version(active: ActiveRun, last: Artifact | None) -> str:
    """The version before this one, named and fenced; empty if there is none."""
    version: object = last.text if last is not None else ""
    if last is not None and last.is_data:
        version = plain_artifact(active.program, active.state, last)
    run, which = active.state, "previous version"
    if last is not None and last.author == run.state:
        is_newest = last.attempt == run.attempts.get(run.state, 0)
        which = which if is_newest else "best version so far"
    if not isinstance(version, str):
        printed = active.program.template("{{ previous }}").render({"previous": version})
    elif is_answer(version):
        printed = version
    else:
        return f"Your {which} has {len(version):,} characters, too many to be shown here."
    printed = printed.strip("\n")
    if last is not None and last.tree:
        return f"Your changes so far:\n\n{as_code_block(printed)}" if printed else NO_CHANGE
    if printed.strip():
        by = ", as a reviewer has changed it" if last is not None and last.edited else ""
        return f"Your {which}{by}:\n\n{as_code_block(printed)}"
    return f"Your {which} was empty." if run.attempts.get(run.state, 0) > 0 else ""
