"""Command agents: the prompt goes in as an argument or on stdin, the reply is stdout."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from loopkit.agents.port import AgentError, AgentPort, Reply, Request
from loopkit.engine.records import MOST_USD, Usage
from loopkit.language.agents import CommandAgent, JsonReply
from loopkit.language.datatypes.datatype import value_at
from loopkit.language.section import INPUT_FILE
from loopkit.language.template.rendering import parse
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    command_environment,
    run_command,
)
from loopkit.outside.workspace import input_file, without_folders
from loopkit.text.editing import Event, assistant_texts, events_of, failure_in, result_of
from loopkit.text.json_text import text_or_json
from loopkit.text.patterns import PatternTimeout
from loopkit.validators.command import Ending, ending_of

STDERR_TAIL = 500
MAX_JUDGE_CHARS = 1_000_000
"""Of a judge's messages, in which a verdict is looked for."""


class CommandAgentPort(AgentPort):
    def __init__(self, definition: CommandAgent) -> None:
        self._definition = definition

    def quote(self, _: Request) -> Usage:
        return Usage(agent_calls=1, cost_usd=self._definition.price_per_run)

    async def ask(self, request: Request) -> Reply:
        """Run the program once; raises AgentError by the exit code and the `errors:` table."""
        templates = [parse(text).names for _, text in self._definition.templates]
        with input_file(INPUT_FILE, request.input, frozenset[str]().union(*templates)) as own:
            program, result = await self._run(request, own)
        try:
            self._refuse_errors(program, result)
            read = self._read(result.stdout, may_be_empty=request.is_left)
        except AgentError as error:
            error.cost_usd, error.tokens = self._spent(result.stdout)
            # Programs say in many ways that they don't know a session any more.
            error.session_lost = bool(request.session)
            raise
        # A part of a judge's messages that is left out could hold the verdict.
        is_too_long = request.role == "judge" and sum(map(len, read.said)) > MAX_JUDGE_CHARS
        price = self._definition.price_per_run
        return read.replace(
            # For any other role, only the reply counts.
            said=() if is_too_long or request.role != "judge" else read.said,
            cut_off=is_too_long,
            exit_code=result.exit_code,
            stderr=_tail(result.stderr),
            cost_usd=price if read.cost_usd is None else read.cost_usd,
        )

    async def _run(self, request: Request, own: Mapping[str, str]) -> tuple[str, CommandResult]:
        names = {**request.names, **own, **self._definition.own_names}
        names |= {"prompt": request.prompt, "session": request.session or ""}
        resumed = self._definition.resume if request.session else ()
        argv = [parse(part).render(names) for part in (*self._definition.command, *resumed)]
        with as_agent_errors():
            result = await run_command(
                argv,
                cwd=request.folder,
                env=command_environment(self._definition.env),
                stdin=self._stdin(request, names),
                timeout_s=request.timeout_s,
            )
        stdout = without_folders(result.stdout)
        stderr = without_folders(result.stderr)
        stdout = stdout.removeprefix("\ufeff")
        return argv[0], replace(result, stdout=stdout, stderr=stderr)

    def _stdin(self, request: Request, names: Mapping[str, object]) -> str | None:
        if self._definition.stdin is not None:
            return parse(self._definition.stdin).render(names)
        names_used = {name for element in self._definition.command for name in parse(element).names}
        return None if "prompt" in names_used else request.prompt

    def _refuse_errors(self, program: str, result: CommandResult) -> None:
        try:
            ending = ending_of(self._definition.errors, result)
        except PatternTimeout as error:
            raise AgentError("fatal", str(error)) from error
        if ending is None and result.exit_code == 0:
            return
        ending = ending or Ending("fatal")
        said = _tail(result.stderr) or _tail(result.stdout)
        if self._definition.reply != "text":
            said = failure_in(_last_of(list(events_of(result.stdout)))) or said
        message = f"`{program}` ended with exit code {result.exit_code}"
        message += f": {said}" if said else ""
        raise AgentError(ending.error_class, message, retry_after_s=ending.retry_after_s)

    def _spent(self, stdout: str) -> tuple[float | None, int]:
        """The cost and the tokens of a failed run, as it reports them or by its price."""
        cost_usd, tokens = None, 0
        if self._definition.reply == "stream_json":
            cost_usd, tokens = _reported(result_of(list(events_of(stdout))))
        return self._definition.price_per_run if cost_usd is None else cost_usd, tokens

    def _read(self, stdout: str, *, may_be_empty: bool) -> Reply:
        form = self._definition.reply
        if isinstance(form, JsonReply):
            return _read_json(stdout, form.json_)
        if form == "stream_json":
            return read_stream_json(stdout, may_be_empty=may_be_empty)
        return Reply(stdout, cost_usd=None)


@contextmanager
def as_agent_errors() -> Iterator[None]:
    """Raise an AgentError where a command does not start or takes too long."""
    try:
        yield
    except CommandNotStarted as error:
        raise AgentError("fatal", str(error), sent=False) from error
    except CommandTimeout as error:
        # Before it was killed, it may have spent its whole price.
        raise AgentError("transient", str(error), charged=True, timed_out=True) from error


def read_stream_json(stdout: str, *, may_be_empty: bool = False) -> Reply:
    """The text of the result in a transcript of JSON lines, else its last message; raises
    AgentError."""
    events = list(events_of(stdout))
    result = result_of(events)
    if reason := failure_in(_last_of(events)):
        raise AgentError("fatal", f"the program reports an error: {reason}")
    if not result:
        cause = "the program's output has no last record (`type: result`), so it ended early or "
        raise AgentError("fatal", f"{cause}`reply: stream_json` can't read it{_printed(stdout)}")
    texts = assistant_texts(events)
    said = text_or_json(result["result"]) if result.get("result") is not None else ""
    text = said if said.strip() else (texts[-1] if texts else "")
    if not text and not may_be_empty:
        unread = f"no answer can be read in the program's output{_printed(stdout)}"
        raise AgentError("fatal", unread)
    session = next((s for e in reversed(events) if isinstance(s := e.get("session_id"), str)), None)
    said_all = () if texts == (text,) else texts
    cost_usd, tokens = _reported(result)
    return Reply(text, said=said_all, session=session, cost_usd=cost_usd, tokens=tokens)


def _last_of(events: Sequence[Event]) -> Event:
    return result_of(events) or (events[-1] if events else {})


def _printed(stdout: str) -> str:
    return f"; it printed: {_tail(stdout)}" if stdout.strip() else "; it printed nothing"


def _reported(result: Mapping[str, Any]) -> tuple[float | None, int]:
    """The cost, if it is plausible, and the tokens that the last line of a transcript reports."""
    usage: object = result.get("usage")
    usd: Any = result.get("total_cost_usd")
    counts = map(usage.get, ("input_tokens", "output_tokens")) if isinstance(usage, dict) else ()
    is_amount = isinstance(usd, int | float) and not isinstance(usd, bool) and 0 <= usd <= MOST_USD
    tokens = sum(count for count in counts if isinstance(count, int) and count > 0)
    return float(usd) if is_amount else None, tokens


def _read_json(stdout: str, path: str) -> Reply:
    try:
        record = json.loads(stdout)
    except (ValueError, RecursionError) as error:
        message = f"the program's output is not JSON: {error}{_printed(stdout)}"
        raise AgentError("fatal", message) from error
    value = value_at(record, path.split("."))
    reason = failure_in(record) if isinstance(record, dict) else ""
    if reason and (value is None or record.get("is_error") is True):
        raise AgentError("fatal", f"the program reports an error: {reason}")
    if value is None:
        raise AgentError("fatal", f"the program's JSON has no field `{path}`{_printed(stdout)}")
    return Reply(text_or_json(value), cost_usd=None)


def _tail(text: str) -> str:
    return text.strip()[-STDERR_TAIL:]
