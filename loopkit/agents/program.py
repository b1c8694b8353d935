"""Program agents: a coding program gets the prompt on stdin and is read while it works.

What it is started with and what its records mean stands in `loopkit.programs`. Here is what becomes
of a call: the variables that it sees, its reply, and the class of its failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from loopkit.agents.port import AgentError, AgentPort, Reply, Request, asking_for
from loopkit.engine.findings import note
from loopkit.engine.payloads import SessionUse, TokenUse
from loopkit.engine.records import MOST_USD, Usage
from loopkit.language.agents.program import ProgramAgent
from loopkit.language.section import ErrorClass
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandTimeout,
    command_environment,
    run_command,
)
from loopkit.outside.workspace import scratch_file
from loopkit.programs.port import Counted, Failed, Reader, Reading, Why
from loopkit.text import plural

_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
_CERTIFICATES = frozenset(("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"))
_HOMES = frozenset(f"XDG_{of}" for of in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME"))
PASSED = _PROXIES.union(map(str.lower, _PROXIES), _CERTIFICATES, _HOMES, ("XDG_RUNTIME_DIR",))
"""What every program may see besides the harmless variables."""
CLASSES: Mapping[Why, ErrorClass] = {
    "sign_in": "fatal",
    "quota": "fatal",
    "rate_limit": "transient",
    "server": "transient",
    "ended_early": "transient",
    "context": "fatal",
    "session_lost": "fatal",
    "refusal": "content",
    "turns": "content",
    "cut_off": "content",
    "other": "fatal",
}
"""Whether another try, another answer or a person can help, by why a program gave no answer."""
DENIED = "denied"
LONGEST_LINE = 10_000_000
"""Bytes; a longer one is no record."""
STDERR_TAIL = 500


class ProgramAgentPort(AgentPort):
    def __init__(self, definition: ProgramAgent) -> None:
        self._definition = definition
        self._has_warned = False

    def quote(self, _: Request) -> Usage:
        return Usage(agent_calls=1, cost_usd=self._definition.price_per_run)

    async def ask(self, request: Request) -> Reply:
        """Run the program once; raises AgentError by what its records say."""
        agent = self._definition
        command = agent.start(request.session)
        followed = _Followed(agent.known.reader(), request)
        flag = agent.known.usage_flag
        try:
            with scratch_file() as usage:
                result = await run_command(
                    (*command.argv, *((flag, str(usage)) if flag else ())),
                    cwd=request.folder,
                    env=environment(agent, command.env),
                    stdin=_prompt(request),
                    timeout_s=request.timeout_s,
                    idle_s=agent.idle_timeout,
                    on_output=followed.take,
                )
                written = usage.read_bytes() if usage.is_file() else b""
        except CommandNotStarted as error:
            remedy = f"`npm install --global {agent.known.package}`"
            raise AgentError("fatal", f"{error} ({remedy})", sent=False) from error
        except CommandTimeout as error:
            silent = f"it printed nothing for {agent.idle_timeout:g} s" if error.message else ""
            raise AgentError(
                "transient", str(error), charged=True, timed_out=True, doubt=silent,
                stream=error.stdout,
            ) from error  # fmt: skip
        await followed.end(written)
        before = Counted(**request.session_use.plain()) if request.session_use else Counted()
        reading = followed.reader.finish(
            result.stderr, result.exit_code, before, datetime.now().astimezone()
        )
        if reading.text is None:
            raise self._error(reading, request, result.stdout)
        return self._reply(reading, reading.text).replace(
            exit_code=result.exit_code,
            stderr=result.stderr.strip()[-STDERR_TAIL:],
            stream=result.stdout,
        )

    def _reply(self, reading: Reading, text: str) -> Reply:
        total = reading.total
        counted, tokens, usd = self._spent(reading.turn)
        return Reply(
            text,
            session=reading.session,
            session_use=None if total == Counted() else SessionUse(**vars(total)),
            tokens=tokens,
            counted=counted,
            cost_usd=usd,
            findings=tuple(note(DENIED, sentence) for sentence in reading.denied),
            warning=self._warning(reading),
        )

    def _spent(self, used: Counted) -> tuple[TokenUse | None, int, float | None]:
        """The tokens, in and out together, and USD: as the program tells them, else by the agent's
        price, else the most that a call costs."""
        agent, usd = self._definition, used.cost_usd
        if used.tokens_in is None and used.tokens_out is None:
            counted, tokens, known = None, 0, agent.price_per_run
        else:
            counted = TokenUse(input=used.tokens_in or 0, output=used.tokens_out or 0)
            tokens = counted.input + counted.output
            known = agent.usd_for(counted.input, counted.output)
        return counted, tokens, usd if usd is not None and 0 <= usd <= MOST_USD else known

    def _warning(self, reading: Reading) -> str:
        """That the version was not tried, or prints records that are not known; once."""
        known, version = self._definition.known, reading.version
        first, last = known.tested
        told = []
        if version is not None and not _is_within(version, first, last):
            tried = f"only {first} was tried" if first == last else f"{first} to {last} were tried"
            told.append(f"is version {version}, and {tried}: what it prints may be misread")
        if reading.unknown:
            told.append(f"printed {plural(reading.unknown, 'record')} of unknown kinds")
        if self._has_warned or not told:
            return ""
        self._has_warned = True
        return f"`{known.name}` {'; it '.join(told)}"

    def _error(self, reading: Reading, request: Request, stream: str) -> AgentError:
        agent = self._definition
        failed = reading.failed or Failed("ended_early", "it gave no answer")
        kind, doubt, message = CLASSES[failed.why], "", f"`{agent.program}`: {failed.message}"
        if failed.why == "quota" and failed.retry_after_s is not None:
            kind = "transient"
        elif failed.why == "sign_in":
            message += f"; {_to_sign_in(agent)}"
        elif kind == "transient" and reading.actions:
            done = reading.actions[-1]
            about = " ".join(filter(None, (done.name, done.about)))
            doubt = f"it failed after it had begun its work ({about}): {failed.message}"
        _, tokens, usd = self._spent(reading.turn)
        return AgentError(
            kind,
            message,
            retry_after_s=failed.retry_after_s,
            # A session that is not found costs nothing.
            cost_usd=0.0 if failed.why == "session_lost" else usd,
            tokens=tokens,
            doubt=doubt,
            stream=stream,
            session_lost=failed.why in ("context", "session_lost") and bool(request.session),
        )


def _prompt(request: Request) -> str:
    """The prompt, with the shape of the answer unless that, or the session, has it already."""
    if request.schema is None or request.is_described or request.session:
        return request.prompt
    schema = json.dumps(request.schema, indent=2, ensure_ascii=False)
    if schema in request.prompt:
        return request.prompt
    return f"{request.prompt}\n\n{asking_for(schema)}"


class _Followed:
    """Hands the lines of a program to its reader, and what it does to the run."""

    def __init__(self, reader: Reader, request: Request) -> None:
        self.reader = reader
        self._request = request
        self._begun = bytearray()

    async def take(self, piece: bytes) -> None:
        self._begun += piece
        if b"\n" in piece or len(self._begun) > LONGEST_LINE:
            *lines, rest = bytes(self._begun).split(b"\n")
            self._begun = bytearray(rest[:LONGEST_LINE])
            for line in lines:
                await self._read(line)

    async def end(self, written: bytes) -> None:
        """Take what has come since the last end of a line, and a record that is in a file."""
        for line in (bytes(self._begun), written[:LONGEST_LINE]):
            if line:
                await self._read(line)

    async def _read(self, line: bytes) -> None:
        folder, report = self._request.folder, self._request.report
        for action in self.reader.feed(line.decode(errors="replace").removesuffix("\r")):
            about = action.about.replace(f"{folder}/", "")
            if report is not None:
                await report(replace(action, about=about), self.reader.session)


def environment(agent: ProgramAgent, own: Mapping[str, str]) -> dict[str, str]:
    """The variables that a program sees; with `auth: login`, no key among them."""
    keys = frozenset(agent.keys)
    names = PASSED.union(agent.known.passed, agent.env) - keys
    return command_environment(names | keys if agent.auth == "key" else names, own)


def _to_sign_in(agent: ProgramAgent) -> str:
    keys = [name for name in agent.keys if os.environ.get(name)]
    if agent.auth == "key":
        return f"check the key in `{'` or `'.join(keys or agent.keys)}`"
    withheld = f"; `{keys[0]}` is set, which only `auth: key` passes" if keys else ""
    return f"sign in with `{agent.known.sign_in}`{withheld}"


def _is_within(version: str, first: str, last: str) -> bool:
    """Whether a version is in a range; one that ends with `2.1` has all of `2.1.x` in it."""
    at, least, most = (
        [int(part) for part in one.partition("-")[0].split(".") if part.isdecimal()]
        for one in (version, first, last)
    )
    return least <= at and at[: len(most)] <= most
