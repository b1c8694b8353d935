"""Replies: as they are stored, as artifacts with their fields and faults, and as messages.

What is stored has no secrets in it and is no longer than a record may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from loopkit.agents.model.pricing import OUTPUT_CAPS
from loopkit.agents.port import AgentError, AgentPort, Message, Reply, Request
from loopkit.engine.events import OF_AGENTS, OF_AUTHORS, Replied, Role
from loopkit.engine.findings import OF_ARTIFACT, Finding, finding_id
from loopkit.engine.payloads import Artifact, LeftFolder, ToolCall
from loopkit.engine.records import Usage
from loopkit.engine.state import Exchange, Task, tool_task
from loopkit.language.agents import Agent
from loopkit.language.datatypes.datatype import conform, fault_texts, salvage, violation
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.machine import Machine
from loopkit.language.states.state import OF_FOLDERS, Output
from loopkit.machine.graph import BREAKS_SCHEMA, CUT_OFF, EMPTY, LOOPS, MISSING, NO_ANSWER, NOT_JSON
from loopkit.machine.inputs import extract
from loopkit.outside.redaction import Redact
from loopkit.text import HALF, is_broken, one_line, or_empty, storable, without_loop
from loopkit.text.json_text import NoJson, entries_of, extract_json, mend, text_or_json
from loopkit.text.markdown import code_blocks
from loopkit.text.thoughts import WrittenCall, read_call, set_apart
from loopkit.values import NOTHING, Value

ANSWERING = {*OF_AGENTS, *OF_AUTHORS}
"""The roles whose replies are inserted into prompts, which limits their length."""
LONGEST_ANSWER = 1_500_000
"""Characters. A template prints 2,000,000, and an answer stands in prompts beside other texts.

Whatever they are, they are fewer bytes than can be stored."""
MOST_BYTES = 10_000_000
"""Of a text as JSON, where a control character takes six; a record holds several texts."""
MOST_FILE_BYTES = 20_000_000
"""Of an output file as JSON: room for all that can be read, but for many control characters."""
LONGEST_NAME = 10_000
"""Characters of a session or a model."""
LONGEST_TOOL = 64
"""Characters of the name of a tool that a model made up; providers take no more."""
KEPT_CHARS = 100_000
"""Characters kept of a text that is too long, half from each end."""
_MOST_BYTES_A_CHAR = 6
LONGEST_REASON = 1_000
"""Characters that are kept of the words of an author about why it can't be done."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""The characters that providers refuse in the name of a tool."""


class Written(Value, frozen=True):
    text: str | None = None
    """The text of the file; None if the attempt did not write it."""
    place: str = ""
    fault: str = ""
    folder: LeftFolder | None = None
    """None if the attempt changed nothing in it."""


NOTHING_WRITTEN = Written()


async def ask_agent(port: AgentPort, agent: Agent, request: Request) -> Reply:
    """The reply of an agent without its thoughts and an author's loop; raises AgentError."""
    reply = await port.ask(request)
    thoughts: Any = getattr(agent, "thoughts", "keep")
    text, thought = set_apart(reply.text, thoughts)
    said = [set_apart(message, thoughts)[0] for message in reply.said]
    whole = text
    text = text if request.role == "judge" else without_loop(text)
    if text == reply.text and said == [*reply.said]:
        return reply
    return reply.replace(
        text=text,
        loops=text != whole,
        said=tuple(filter(str.strip, said)),
        thoughts="\n\n".join(filter(None, (reply.thoughts, thought))),
        raw=reply.text,
    )


def refuse_halves(request: Request, reply: Reply) -> None:
    """Raise AgentError if the answer of an agent can't be stored as it is."""
    if request.role in ANSWERING and is_broken("".join((reply.text, *reply.said))):
        message = f"the answer has {HALF}"
        raise AgentError("content", message, tokens=reply.tokens, cost_usd=reply.cost_usd)


def reply_event(
    redact: Redact, request: Request, reply: Reply, written: Written, files: str, spent_s: float
) -> Replied:
    """The event of a reply; `files` is the digest of what it left in its workspace."""
    written = storable_output(redact, written)
    clean = partial(storable_text, redact)
    text, is_agent = clean(reply.text), request.role in ANSWERING
    is_cut = is_agent and not is_answer(text)
    usage = usage_of(request.role, reply.tokens, reply.cost_usd, spent_s)
    session = reply.session
    # One that is too long is no name.
    session = storable(session) if session is not None and len(session) <= LONGEST_NAME else None
    return Replied(
        key=request.key,
        text=shorten(text) if is_cut else text if is_agent else bounded(text),
        said=tuple(map(clean, reply.said)),
        thoughts=bounded(clean(reply.thoughts)),
        loops=reply.loops,
        raw=bounded(clean(reply.raw)),
        cut_off=reply.cut_off or is_cut,
        in_words=clean(reply.in_words),
        prompt_cut=clean(reply.prompt_cut),
        played=reply.played,
        tool_calls=_tool_calls(redact, reply.tool_calls),
        kept=_provider_data(redact, reply.kept) if reply.kept else NOTHING,
        has_no_tools=reply.has_no_tools,
        exit_code=reply.exit_code,
        stderr=bounded(clean(reply.stderr)),
        session=session,
        session_use=reply.session_use,
        stream=bounded(clean(reply.stream)),
        warning=clean(reply.warning),
        model=clean(reply.model[:LONGEST_NAME]),
        workspace=reply.workspace or files,
        usage=usage.as_held if reply.held else usage,
        counted=reply.counted,
        found_clean=reply.found_clean,
        findings=reply.findings,
        commands=reply.commands,
        artifact_text=written.text,
        artifact_place=written.place,
        artifact_fault=written.fault,
        folder=written.folder,
    )


def size_as_json(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode())


def is_answer(text: str) -> bool:
    """Whether a text can be stored and printed into the prompts that follow."""
    return len(text) <= LONGEST_ANSWER


def shorten(text: str, most: int = KEPT_CHARS) -> str:
    """Both ends of a text, with a line between them that says how much is missing."""
    half = most // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[{missing:,} characters left out]\n{text[-half:]}"


def storable_text(redact: Redact, text: str) -> str:
    return storable(redact(text))


def _tool_calls(redact: Redact, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Tool calls as they may be stored: together they are not much longer than an answer.

    Arguments without room lose their middle, so that they are not JSON; later calls are left out.
    """
    kept: list[ToolCall] = []
    left = LONGEST_ANSWER
    for called in calls:
        if left <= 0:
            break
        own = storable(called.id[:LONGEST_NAME])
        arguments = called.arguments
        # A name that a model made up is sent back to its provider, and printed.
        name = _NO_NAME.sub("_", redact(called.name))[:LONGEST_TOOL] or "_"
        left -= len(own) + len(name) + len(arguments)
        if left < 0 and len(arguments) > KEPT_CHARS:
            arguments = shorten(arguments)
        arguments = storable_text(redact, arguments)
        kept.append(called.replace(id=own, name=name, arguments=arguments))
    return tuple(kept)


def _provider_data(redact: Redact, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The data that a provider wants back; empty if it has secrets in it or is too long."""
    text = json.dumps(kept)
    may_be_stored = len(text) <= LONGEST_ANSWER and redact(text) == text
    return dict(kept) if may_be_stored else {}


def storable_output(redact: Redact, written: Written) -> Written:
    """The output file as it may be stored; a text that is too long is a fault."""
    if written.text is None:
        return written
    text = storable_text(redact, written.text)
    if (size := size_as_json(text)) <= MOST_FILE_BYTES:
        return Written(text, written.place)
    takes = f"the output file takes {size:,} bytes as JSON, where control characters take six each"
    return Written(fault=f"{takes}, and {MOST_FILE_BYTES:,} can be kept; write fewer of them")


def bounded(text: str) -> str:
    """A text that can be stored: the whole, or both of its ends."""
    is_short = len(text) * _MOST_BYTES_A_CHAR <= MOST_BYTES
    return text if is_short or size_as_json(text) <= MOST_BYTES else shorten(text)


def usage_of(role: Role, tokens: int, cost_usd: float | None, spent_s: float) -> Usage:
    """The usage of a call; work of somebody outside costs nothing."""
    if role == "outside":
        return Usage()
    return Usage(
        agent_calls=int(role in OF_AGENTS),
        tool_calls=int(role == "tool"),
        tokens=tokens,
        cost_usd=cost_usd,
        time_s=spent_s,
    )


def make_artifact(
    reply: Replied,
    agent: Agent | None,
    output: Output,
    author: str,
    attempt: int,
    patterns: Mapping[str, str],
) -> Artifact:
    """The artifact of a reply with its content fault; without an agent, of a program's."""
    text, code, fault = _text_of(reply, output, agent)
    plain = Artifact(
        name=output.name,
        author=author,
        attempt=attempt,
        text=text,
        workspace=reply.workspace,
        place=reply.artifact_place,
        notes=() if agent is None else reply.findings,
    )
    if fault:
        return plain.replace(fault=fault, fault_code=code)
    if output.folder is not None:
        left = reply.folder or LeftFolder(tree="")
        values = list(left.files), left.last_change, left.tree
        of_folder = dict(zip(OF_FOLDERS, values, strict=True))
        plain = plain.replace(fields=of_folder, tree=left.tree, place=left.place)
    if agent is not None and agent.schema_ is not None:
        return _with_data(plain, agent)
    if not output.fields:
        return plain
    return plain.replace(fields=plain.fields | extract(text, output.fields, patterns))


def written_call(agent: Agent, text: str) -> WrittenCall | str | None:
    """The call of a tool in a text that should be an answer, or why what is meant is none.

    A text that fits the agent's schema is an answer.
    """
    called = read_call(text, agent.callable_tools) if agent.callable_tools else None
    if called is None or agent.schema_ is None:
        return called
    data = _with_data(Artifact(name="", author="", attempt=0, text=text), agent)
    return called if data.fault else None


_CONTENT = (
    *("text", "data", "is_data", "mended", "tree"),
    *("fault", "fault_code", "fault_findings", "infeasible", "infeasible_because", "missing"),
)


def content_of(artifact: Artifact) -> dict[str, Any]:
    """What an artifact has of its text, file or folder, beside its fields."""
    return {name: getattr(artifact, name) for name in _CONTENT}


def with_content(artifact: Artifact, written: Written, machine: Machine) -> Artifact:
    author, text = artifact.author, written.text
    output = machine.states[author].output_at(author)
    assert output is not None
    agents = (one for one in machine.agents_at(author) if bool(one.schema_) == artifact.is_data)
    reply = Replied(key="", text="", artifact_text=text, folder=written.folder, usage=Usage())
    made = make_artifact(
        reply, next(agents, None), output, author, artifact.attempt, machine.patterns
    )
    fields = artifact.fields | made.fields
    return artifact.replace(**content_of(made), fields=fields, rereads=artifact.rereads + 1)


def faulty_artifact(output: Output, author: str, attempt: int, code: str, fault: str) -> Artifact:
    return Artifact(
        name=output.name, author=author, attempt=attempt, text="", fault=fault, fault_code=code
    )


def data_artifact(author: str, attempt: int, data: object) -> Artifact:
    text = json.dumps(data, ensure_ascii=False)
    return Artifact(name=author, author=author, attempt=attempt, text=text, data=data, is_data=True)


def _text_of(reply: Replied, output: Output, agent: Agent | None) -> tuple[str, str, str]:
    """(text, fault code, fault) of a reply; with a schema, the whole text with the data in it."""
    written = reply.artifact_text if reply.folder is None else reply.folder.change
    if output.may_be_missing and written is None:
        return "", MISSING, reply.artifact_fault or "the output file was not written"
    text = reply.text if written is None else written
    if agent is None or agent.schema_ is None:
        text = body(text, output, is_answer=agent is not None and written is None)
    if agent is None:
        # A program may have nothing to say.
        return text, "", ""
    # An attempt that reverts all changes leaves the original folder, which is not an empty answer.
    if not text.strip() and reply.folder is None:
        is_thought = written is None and reply.raw
        return text, EMPTY, "the answer is all thought" if is_thought else "the answer is empty"
    if reply.loops and written is None:
        return text, LOOPS, "the answer says the same again and again, up to its end"
    if reply.cut_off and written is None:
        where = _own_cap(agent, reply)
        return text, CUT_OFF, f"the answer was cut off before its end{where}; it has to be shorter"
    called = None if reply.has_no_tools or written is not None else written_call(agent, reply.text)
    if isinstance(called, str):
        fault = f"a tool call came as text, and was not made: {called}"
        return text, NO_ANSWER, f"{fault}; call the tool itself, or answer without a call"
    return text, "", ""


def _own_cap(agent: Agent, reply: Replied) -> str:
    """The longest answer that the machine's options allow, if it is the same for all callees.

    Otherwise, how long this one was.
    """
    options = (getattr(asked, "params", {}) for asked in agent.in_turn)
    caps = {next(((c, p[c]) for c in OUTPUT_CAPS if p.get(c) is not None), None) for p in options}
    [cap] = caps if len(caps) == 1 else {None}
    if cap is None and reply.counted is not None:
        return f" (at {reply.counted.output:,} tokens)"
    return f" (`{cap[0]}` is {cap[1]:,})" if cap is not None else ""


def _with_data(plain: Artifact, agent: Agent) -> Artifact:
    datatype = parse_fields(agent.schema_ or {})
    declared = datatype.field(agent.infeasible) if agent.infeasible is not None else None

    def infeasible(value: object) -> object:
        """What an answer says of why it can't be done; None where it does not say that."""
        said = value.get(agent.infeasible) if declared and isinstance(value, Mapping) else None
        is_said = declared and declared.scalar != "bool" and _says_something(said)
        return said if said is True or is_said else None

    def fits(value: object) -> bool:
        return infeasible(value) is not None or not conform(value, datatype)[1]

    found = extract_json(plain.text, fits)
    if isinstance(found, NoJson):
        text, slips = mend(plain.text)
        found = extract_json(text, fits) if slips else found
        plain = plain.replace(mended=slips)
    if isinstance(found, NoJson):
        return plain.replace(fault=f"the answer is not JSON: {found.reason}", fault_code=NOT_JSON)
    data, faults = conform(found, datatype)
    if (said := infeasible(found)) is not None:
        # An infeasible answer need not fill in the rest.
        data, missing = salvage(data, datatype)
        known = plain.replace(data=data, is_data=True, missing=tuple(sorted(missing)))
        return known.replace(infeasible=True, infeasible_because=_words_of(said))
    if faults:
        fault = f"the answer breaks its schema: {'; '.join(fault_texts(faults))}"
        found = tuple(violation_findings(faults))
        return plain.replace(fault=fault, fault_code=BREAKS_SCHEMA, fault_findings=found)
    return plain.replace(data=data, is_data=True)


def violation_findings(faults: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    for where, what in faults:
        field, message = violation(where, what)
        found = Finding(
            id=finding_id(OF_ARTIFACT, BREAKS_SCHEMA, where, what), message=message, location=field
        )
        yield found.replace(validator=OF_ARTIFACT, rule=BREAKS_SCHEMA, code=BREAKS_SCHEMA)


REASONS = ("reason", "message", "description", "diagnosis", "diagnostic", "explanation", "summary")
"""The fields of a record that may say in words why something cannot be done."""


def _says_something(value: object) -> bool:
    """Whether a value has anything but blanks, false, null and empty records and lists in it."""
    if isinstance(value, str):
        return bool(value.strip())
    inner = [one for _, one in entries_of(value)]
    return any(map(_says_something, inner)) if inner else value not in (None, False, [], {})


def _words_of(said: object) -> str:
    named = [said.get(key) for key in REASONS] if isinstance(said, Mapping) else []
    words = next((one for one in named if isinstance(one, str) and one.strip()), said)
    return "" if words is True else one_line(text_or_json(words), LONGEST_REASON)


def body(text: str, output: Output, *, is_answer: bool = False) -> str:
    """The artifact in a text: the whole text, or the content of its only fence.

    The fence of an answer goes where nothing stands around it, unless it is to be kept.
    """
    blocks = code_blocks(text) if output.fence == "strip" or is_answer else ()
    if len(blocks) != 1 or output.fence == "keep":
        return text
    content = blocks[0][1].removesuffix("\n")
    whole = text.strip()
    # The content is not indented, and the last line is a fence of its own.
    spans = whole.startswith(("```", "~~~")) and whole.count("\n") == content.count("\n") + 2
    return content if spans or output.fence == "strip" else text


NO_MORE_CALLS = "Not called: no call is left. Give your answer now."
"""The result of a tool call beyond the last that an attempt may make."""
RECEIVED = "Received."
"""The result of the tool call with which a report is submitted."""


def conversation(
    exchanges: Sequence[Exchange], prompt: str | None, tasks: Mapping[str, Task] | None = None
) -> list[Message]:
    """The turns so far, and the new prompt, which is None if tool results are sent.

    `tasks` have the results of the tools that were called; without them each call was received.
    """
    messages: list[Message] = []
    for exchange in exchanges:
        reply = exchange.reply
        if not exchange.goes_on:
            messages.append(Message("user", or_empty(exchange.prompt)))
        if reply.tool_calls and not reply.has_no_tools:
            messages.append(
                Message("assistant", reply.text, tool_calls=reply.tool_calls, kept=reply.kept)
            )
            messages += _results(exchange, tasks)
        else:
            # Some providers refuse a conversation with an empty message.
            messages.append(Message("assistant", or_empty(reply.text), kept=reply.kept))
    if prompt is not None:
        messages.append(Message("user", or_empty(prompt)))
    return messages


def _results(exchange: Exchange, tasks: Mapping[str, Task] | None) -> Iterator[Message]:
    for number, call in enumerate(exchange.reply.tool_calls, exchange.tool_calls_before + 1):
        output = RECEIVED
        if tasks is not None:
            task = tasks.get(tool_task(exchange.task, number))
            output = task.exchanges[-1].reply.text if task and task.exchanges else NO_MORE_CALLS
        yield Message("tool", output, tool_call_id=call.id)
