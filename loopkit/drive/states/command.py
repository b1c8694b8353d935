"""A `run` state: a command, whose stdout is the artifact and whose exit code guards may read."""

from __future__ import annotations

from loopkit.agents.command import as_agent_errors
from loopkit.agents.port import Reply, Request
from loopkit.drive.active import ActiveRun
from loopkit.drive.artifacts import with_folder, workspace_text
from loopkit.drive.calls import CallSeries, call, find_stored_reply
from loopkit.drive.fields import body, extract
from loopkit.drive.state_files import files_reader, watch_output, workspace
from loopkit.engine.events import Artifact, LeftFolder, Replied, Usage, Worked
from loopkit.engine.template_values import render
from loopkit.language import CommandState, Output
from loopkit.machine.callees import ONCE, Callee
from loopkit.machine.codes import MISSING
from loopkit.outside.processes import command_environment, run_command


async def perform(active: ActiveRun, name: str, state: CommandState) -> Worked:
    """Run the command; a non-zero exit is a result, not an error."""
    output = state.output_at(name)
    reply = await _reply(active, name, state, output)
    artifact = _artifact(active, name, state, output, reply)
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


def _artifact(
    active: ActiveRun, name: str, state: CommandState, output: Output, reply: Replied
) -> Artifact:
    plain = Artifact(
        name=output.name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text="",
        fallback=state.fallback,
        workspace=reply.workspace,
    )
    written = workspace_text(reply)
    if output.may_be_missing and written is None:
        return plain.replace(fault=reply.artifact_fault, fault_code=MISSING)
    text = body(reply.text if written is None else written, output)
    fields = extract(text, output.fields, active.program.machine.patterns)
    whole = plain.replace(text=text)
    if output.folder is not None:
        whole = with_folder(whole, reply)
    return whole.replace(fields={"stderr": reply.stderr} | whole.fields | fields)


async def _reply(active: ActiveRun, name: str, state: CommandState, output: Output) -> Replied:
    folder = await workspace(active, state.workspace, writes=True)
    program, run = active.program, active.state
    argv = [render(program, run, element) for element in state.run]
    is_judged = output.name in program.graph.judged and not output.is_whole_folder
    stdin = None if state.stdin is None else render(program, run, state.stdin)

    async def ask(_: Request) -> Reply:
        env, timeout_s = command_environment(state.env), state.timeout
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
        agent=name,
        place=name,
        role="run",
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
