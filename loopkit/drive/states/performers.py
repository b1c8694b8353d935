"""The work of each kind of state. That of children stands in a module of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loopkit.agents.command import as_agent_errors
from loopkit.agents.players import FunctionAgentPort
from loopkit.agents.port import AgentPort, OutsideAgentPort, Reply, Request
from loopkit.document.writing import (
    NotSet,
    NotWritable,
    ToSet,
    add_to_file,
    replace_file,
    set_in_file,
    size_of,
)
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import await_delivery
from loopkit.drive.calls import (
    CallSeries,
    call,
    callees_for,
    exchanges_of,
    find_stored_reply,
    limit_time,
)
from loopkit.drive.family import perform_children
from loopkit.drive.isolation import (
    changed_between,
    files_reader,
    on_disk,
    output_file,
    place_of,
    project_folder,
    watch_output,
    workspace,
)
from loopkit.drive.judging import (
    Judge,
    answer_without_rules,
    ask,
    gather_answers,
    give_commands,
    notes_on,
    result_index,
    setting_for,
)
from loopkit.drive.limits import LimitReached
from loopkit.drive.protection import protect, undo_changes
from loopkit.drive.replies import (
    ask_agent,
    body,
    conversation,
    data_artifact,
    faulty_artifact,
    is_answer,
    make_artifact,
    with_content,
)
from loopkit.drive.retries import CallFailed, SessionLost
from loopkit.drive.tools import (
    Answered,
    Conversation,
    converse,
    counts_as_answer,
    with_calls,
)
from loopkit.engine import ledger
from loopkit.engine.events import Adding, Outcome, Replied, Reread, Setting, Worked
from loopkit.engine.feedback import is_echo
from loopkit.engine.findings import Answer, Report, latest_resume
from loopkit.engine.macrostep import work_digest
from loopkit.engine.payloads import Artifact, LeftFolder, Ran
from loopkit.engine.records import Usage
from loopkit.engine.revisions import can_come_again
from loopkit.engine.rounds import Rounds
from loopkit.engine.state import Exchange, author_task, last_turns
from loopkit.engine.template_values import (
    AllNames,
    choose_agent,
    last_version,
    plain_artifact,
    render,
    template_names,
)
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, conform, facts_of, fault_texts
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.facts import ORIGIN, SCORE, UNANSWERED
from loopkit.language.guard.evaluate import parse_path
from loopkit.language.input_faults import InvalidInput
from loopkit.language.states import ChoiceState
from loopkit.language.states.each import EachState, MachineState
from loopkit.language.states.kinds import (
    AgentState,
    CommandState,
    DataState,
    FileValues,
    RenderState,
    SetState,
    ValidateState,
)
from loopkit.language.states.state import Output, StateBase
from loopkit.machine.graph import ECHO, NO_AGENT, REFUSED
from loopkit.machine.inputs import extract, fill_in, made_of
from loopkit.machine.program import ONCE, Callee, RulesAsked
from loopkit.outside.processes import (
    command_environment,
    run_command,
)
from loopkit.text import one_line
from loopkit.text.markdown import as_code_block
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fixed_rules import judge_placed
from loopkit.values import NOTHING, Mutable

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
        return _authored(active, name, lost, None)
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
    work = _authored(active, name, artifact, asked.datatype)
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
    if patterns := asked.agent.protected:
        await protect(active, folder, patterns, series.task)
        series = series.replace(undo=partial(undo_changes, active))
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


def _authored(
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
        task=author_task(name, active.state.visit),
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
        session_use=turns[-1].reply.session_use if turns else None,
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


# The state is Any, because each takes the noun whose module is named like its own.
Perform = Callable[[ActiveRun, str, Any], Awaitable[Worked]]


async def perform_choice(active: ActiveRun, name: str, _: ChoiceState) -> Worked:
    return Worked(state=name, visit=active.state.visit, outcome="done")


async def perform_command(active: ActiveRun, name: str, state: CommandState) -> Worked:
    """Run the command; a non-zero exit is a result, not an error."""
    output = state.output_at(name)
    reply = await _reply(active, name, state, output)
    attempt = active.state.attempts.get(name, 0) + 1
    patterns = active.program.machine.patterns
    artifact = make_artifact(reply, None, output, name, attempt, patterns)
    fields = artifact.fields if artifact.fault else {"stderr": reply.stderr} | artifact.fields
    artifact = artifact.replace(fallback=state.fallback, fields=fields)
    graph = active.program.graph
    is_lost = artifact.fault and (graph.on(name, "content") or not graph.judging_follows(name))
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome="content" if is_lost else "done",
        facts={"exit_code": reply.exit_code},
        artifact=artifact,
        error=artifact.fault,
    )


async def _reply(active: ActiveRun, name: str, state: CommandState, output: Output) -> Replied:
    folder = await workspace(active, state.workspace, writes=True)
    program, run = active.program, active.state
    argv = [render(program, run, element) for element in state.run]
    is_judged = output.name in program.graph.judged and not output.is_whole_folder
    stdin = None if state.stdin is None else render(program, run, state.stdin)

    async def ask(_: Request) -> Reply:
        env = command_environment(state.env)
        timeout_s = state.timeout
        with as_agent_errors():
            result = active.commands.result(name, active.state.runs_of(name), folder)
            if result is None:
                result = await run_command(
                    argv, cwd=folder, env=env, stdin=stdin, timeout_s=timeout_s
                )
        return Reply(
            result.stdout,
            exit_code=result.exit_code,
            stderr=result.stderr,
            workspace=result.workspace,
            folder=None if result.folder is None else LeftFolder(**result.folder),
        )

    work = CallSeries(
        task=f"{name}:{run.visit}:run",
        callees=(Callee(ONCE, state.timeout),),
        quote=lambda _: Usage(),
        ask=ask,
        files=files_reader(active, folder, output) if is_judged else None,
    )
    if (answered := find_stored_reply(active, work)) is not None:
        return answered
    if output.is_left:
        work = work.replace(written=await watch_output(active, folder, output, work.task))
    request = Request(name, name, "run", " ".join(argv), folder=folder)
    return await call(active, work, request, hold=True)


async def perform_filled(active: ActiveRun, name: str, state: RenderState | DataState) -> Worked:
    """What the templates make as an artifact; a list that is none is a fatal error."""
    output = state.output_at(name)
    made = work_digest(active.program, active.state)
    names: Mapping[str, object] = AllNames(active.program, active.state)
    if isinstance(state, RenderState):
        template = active.program.template(state.render)
        names = template_names(active.program, active.state, template)
    try:
        text, data = made_of(state, names)
    except InvalidInput as error:
        raise CallFailed("fatal", "; ".join(fault.message for fault in error.faults)) from error
    text = text if data else body(text, output)
    datatype, place = active.program.type_from(name), ""
    if output.file is not None:
        place = await _write(active, name, output.file, text, adds=state.adds)
    artifact = Artifact(
        name=output.name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text=text,
        data=data[0] if data else None,
        is_data=bool(data),
        fields={} if data else extract(text, output.fields, active.program.machine.patterns),
        fallback=state.fallback,
        place="" if data else place,
    )
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome="done",
        facts=facts_of(artifact.data, datatype) if datatype else {},
        artifact=artifact,
        made_from=made,
    )


async def _write(active: ActiveRun, name: str, file: str, text: str, *, adds: bool) -> str:
    """Write a text to a file, or add it once, also after a kill; its path if the text is all."""
    folder, run = await workspace(active, None, writes=True), active.state
    path = output_file(folder, render(active.program, run, file).strip())
    known, work = run.adding, (name, run.visit, str(path))
    try:
        if adds:
            if not isinstance(known, Adding) or (known.state, known.visit, known.file) != work:
                known = Adding(state=name, visit=run.visit, file=str(path), after=size_of(path))
                await active.append(known)
            # From the size before this work began, in this process or an earlier one.
            add_to_file(path, text, known.after)
        else:
            replace_file(path, text)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error
    return "" if adds else str(path)


async def perform_set(active: ActiveRun, name: str, state: SetState) -> Worked:
    """Set the values and read the file; what does not stand there as expected is a content error.

    What is set is recorded before, so that a run that was killed sets the same again.
    """
    run = active.state
    names = AllNames(active.program, active.state)
    path = await _file_of(active, state)
    known = run.adding
    again = isinstance(known, Setting) and (known.state, known.visit) == (name, run.visit)
    if not isinstance(known, Setting) or not again:
        where = fill_in(state.where, names)
        values = fill_in(state.values, names)
        known = Setting(state=name, visit=run.visit, file=str(path), where=where, values=values)
        if values:
            await active.append(known)

    def fit(data: object) -> Any:
        whole, faults = conform(data, parse_type(state.type))
        if faults:
            raise NotSet(f"`{path}` does not fit its type: {'; '.join(fault_texts(faults))}")
        return whole

    expect = fill_in(state.expect, names)
    to_set = _to_set(state, known.where, known.values, expect)
    try:
        data, digest = await _set_values(path, to_set, fit, again=again)
    except NotSet as error:
        return Worked(state=name, visit=run.visit, outcome="content", error=str(error))
    left = {"path": str(path), "data": data, "digest": digest}
    made = data_artifact(name, run.attempts.get(name, 0) + 1, left)
    return Worked(state=name, visit=run.visit, outcome="done", artifact=made)


async def set_at_end(active: ActiveRun, mark: FileValues) -> None:
    """Set the values of a final state, anew if that was done already; raises CallFailed.

    They need no record: the run does not end before they are set, and nothing else changes it.
    """
    names = AllNames(active.program, active.state)
    to_set = _to_set(mark, *(fill_in(v, names) for v in (mark.where, mark.values, mark.expect)))
    try:
        path = await _file_of(active, mark, active.folder.resolve())
        await _set_values(path, to_set, lambda data: data, again=True)
    except NotSet as error:
        raise CallFailed("content", str(error)) from error


def _to_set(written: FileValues, where: Any, values: Any, expect: Any) -> ToSet:
    return ToSet(parse_path(written.at) if written.at else (), where, values, expect)


async def _set_values(
    path: Path, to_set: ToSet, fit: Callable[[object], Any], *, again: bool
) -> tuple[Any, str]:
    try:
        return await asyncio.to_thread(set_in_file, path, to_set, fit, again=again)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error


async def _file_of(active: ActiveRun, written: FileValues, start: Path | None = None) -> Path:
    """Where the file stands: in the workspace, or at an absolute path in it or beside the machine.

    So the file that is an input is the one outside, also for a child with its own tree.
    """
    given = Path(render(active.program, active.state, written.set).strip())
    given = given if start is None else start / given
    is_own = not given.is_absolute()
    if is_own:
        return _file_in(await workspace(active, None, writes=True), given)
    declared = active.program.machine.workspace
    named = place_of(active, declared) if declared is not None else active.folder
    is_there = given.parent.resolve().is_relative_to(named.resolve())
    return _file_in((named if is_there else active.folder).resolve(), given)


def _file_in(folder: Path, given: Path) -> Path:
    path = folder / given
    if given.is_absolute():
        path = Path(os.path.realpath(given.parent)) / given.name
    if not path.is_relative_to(folder):
        message = f"`{given}` lies outside of the folder `{folder}`"
        raise CallFailed("fatal", f"{message}, so it is not changed")
    if os.path.islink(path):  # noqa: PTH114 - takes a name of any length
        message = f"`{given}` is a link, which is not followed; name the file itself"
        raise CallFailed("fatal", message)
    return output_file(folder, str(path.relative_to(folder)), is_made=False)


async def perform_validate(active: ActiveRun, name: str, state: ValidateState) -> Worked:
    """Judge the artifact; a report that no transition names goes to the error edge."""
    program = active.program
    run = active.state
    rules = active.engine.plans[name].rules
    assert rules is not None
    artifact = run.artifacts[state.validate_]
    made_from = {m.author: m.attempt for m in ledger.sources_of(program, run, artifact)}
    earlier = run.rounds_before(name, artifact, made_from)
    judging = _Judging(active, name, state, rules, earlier)
    of_judges: tuple[Answer, ...] = ()
    if artifact.infeasible or artifact.fault:
        answers = [answer_without_rules(artifact, rules.levels)]
    else:
        own = rules.workspace
        judging.folder = project_folder(active, own) or await workspace(active, own)
        started = active.clock.monotonic()
        try:
            try:
                answers = await limit_time(active, judging.by_rules)
            finally:
                judging.time_s = active.clock.monotonic() - started
            if rules.judges and (judges := judging.judges_after(answers)):
                of_judges = await judging.by_judges(judges)
        except LimitReached as reached:
            reached.commands = tuple(judging.ran)
            reached.time_s = judging.time_s
            raise
    panel = ledger.Panel((*notes_on(artifact, rules.levels), *answers), of_judges)
    report = ledger.complete(program, run, name, judging.artifact, panel, earlier, made_from)
    return _work_event(active, name, report, judging)


def _work_event(active: ActiveRun, name: str, report: Report, judging: _Judging) -> Worked:
    facts, plan = report.facts, active.engine.plans[name]
    if name in active.program.graph.scoring:
        facts[SCORE] = report.score
    if active.program.graph.has_origins:
        facts[ORIGIN] = report.origin
    outcome: Outcome = "done"
    if report.verdict in UNANSWERED and report.verdict not in plan.rows:
        outcome = "content" if report.verdict == "infeasible" else report.error_class or "fatal"
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome=outcome,
        facts=facts,
        report=report,
        time_s=judging.time_s,
        error="" if outcome == "done" else f"{report.verdict}: {report.reason}",
        resume_at=latest_resume(report.answers),
        commands=tuple(judging.ran),
    )


class _Judging(Mutable):
    """A validate state at work. The calls of its judges are events, and no part of `time_s`."""

    active: ActiveRun
    name: str
    state: ValidateState
    rules: RulesAsked
    earlier: Rounds
    folder: Path = Path()
    ran: list[Ran] = []
    time_s: float = 0.0
    changed: list[str] = []
    """Some of the files of a folder that were changed while it was judged, for a message."""
    is_left: bool = False
    """Whether the artifact was a file or a folder before they judged."""

    @property
    def artifact(self) -> Artifact:
        return self.active.state.artifacts[self.state.validate_]

    @property
    def subject(self) -> JudgedArtifact:
        made = self.artifact
        return JudgedArtifact(made.name, made.text, made.data, made.is_data)

    async def by_rules(self) -> list[Answer]:
        """The answers of the validators without a model about the artifact as they leave it.

        If its file or folder has changed, all of them judge once more.
        """
        # Where there is nothing to look at, the order of items that work at once stays the same.
        if place := self.artifact.place:
            self.is_left = await asyncio.to_thread(os.path.lexists, place)
        answers = await self._ask_rules()
        if await self._has_changed():
            if self.artifact.fault:
                return [answer_without_rules(self.artifact, self.rules.levels)]
            self.ran.clear()
            answers = await self._ask_rules(is_last=True)
            if self.ran and not self.artifact.tree:
                self._note_file()
        return answers

    def _note_file(self) -> None:
        """Note at the first command what a scenario has to write that plays the run."""
        file = os.path.relpath(self.artifact.place, os.path.realpath(self.folder))
        files = {**self.ran[0].files, file: self.artifact.text}
        self.ran[0] = self.ran[0].replace(files=files)

    async def _ask_rules(self, *, is_last: bool = False) -> list[Answer]:
        """Their answers; with `is_last`, who changes the artifact gives no verdict."""
        active = self.active
        rules = self.rules
        subject = self.subject
        answers: list[Answer] = []
        for validator, fixed in rules.fixed:
            setting = setting_for(active, self.folder, rules.levels, is_guarded=rules.are_guarded)
            if validator in rules.starting:
                setting.baselines = active.state.baselines.get((self.name, validator), {})
                index = result_index(active, self.name, validator)
                give_commands(active, validator, index, setting, self.ran)
            answer = await judge_placed(validator, fixed, subject, setting)
            if is_last and await self._has_changed():
                answer = self._without_verdict(answer)
            if rules.state.settle_after is not None:
                [answer] = ledger.settle([answer], self.earlier, self.state, rules.levels)
            answers.append(answer)
            if rules.state.stop == "first" and _blocks(answers):
                break
        return answers

    async def _has_changed(self) -> bool:
        """Make what is on the disk the artifact; whether that is another content."""
        active, artifact = self.active, self.artifact
        written = await on_disk(active, artifact) if self.is_left else None
        if written is None:
            return False
        now = with_content(artifact, written, active.program.machine)
        if (now.text, now.tree) == (artifact.text, artifact.tree):
            return False
        version = active.state.versions[artifact.name] + 1
        self.changed = await asyncio.to_thread(changed_between, active, artifact.tree, now.tree)
        active.stage(Reread(artifact=now.replace(version=version, previous=artifact.version)))
        return True

    def _without_verdict(self, answer: Answer) -> Answer:
        kind = f"{'folder' if self.artifact.tree else 'file'} {Path(self.artifact.place).name!r}"
        where = f" ({', '.join(self.changed)})" if self.changed else ""
        reason = (
            f"{kind} was changed while it was judged{where}, so nobody has judged what is left; "
            "let a check change nothing, at least not the second time"
        )
        if self.changed:
            reason += ", or name what it writes for itself under `ignore` of the output"
        verdict = "fail" if answer.verdict == "fail" else "error"
        return answer.replace(verdict=verdict, error_class="fatal", reason=reason)

    def judges_after(self, answers: Sequence[Answer]) -> list[Judge]:
        """The judges to ask: all of them if no rule blocks and none lacks a verdict."""
        # Without the verdict of a rule the report is incomplete, so a judge would be paid in vain.
        is_decided = _blocks(answers) or any(answer.is_missing for answer in answers)
        is_ended = any(answer.not_started for answer in answers)
        return [
            Judge(
                self.active,
                self.name,
                validator,
                index,
                rule,
                self.artifact.author,
                levels=self.rules.levels,
                known=ledger.open_findings_of(validator, self.earlier),
                shares_keys=self.state.merge == "key",
            )
            for validator, index, rule in self.rules.judges
            if (rule.always and not is_ended) or not is_decided
        ]

    async def by_judges(self, judges: Iterable[Judge]) -> tuple[Answer, ...]:
        rules, subject = self.rules, self.subject
        guarded = rules.are_guarded
        setting = setting_for(self.active, self.folder, rules.levels, is_guarded=guarded)
        answers = await gather_answers(ask(one, subject, setting) for one in judges)
        if await self._has_changed():
            answers = [self._without_verdict(answer) for answer in answers]
        return ledger.settle(answers, self.earlier, self.state, self.rules.levels)


def _blocks(answers: Iterable[Answer]) -> bool:
    return any(finding.blocking for answer in answers for finding in answer.findings)


PERFORMERS: Mapping[type[StateBase], Perform] = {
    AgentState: perform_agent,
    ChoiceState: perform_choice,
    CommandState: perform_command,
    DataState: perform_filled,
    EachState: perform_children,
    MachineState: perform_children,
    RenderState: perform_filled,
    SetState: perform_set,
    ValidateState: perform_validate,
}
"""What does the work of each kind of state that has work of its own."""
