"""`command`: a program judges."""

from __future__ import annotations

import re

from loopkit.definition import CommandRule
from loopkit.processes import CommandNotStarted, CommandResult, CommandTimeout, command_environment
from loopkit.template import parse
from loopkit.text import printable
from loopkit.validators.fault import CannotJudge, Fault
from loopkit.validators.subject import Setting, Subject

TAIL_CHARS = 2_000
"""How much of the end of a command's output becomes the message."""

_MEASURED = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


async def check_command(rule: CommandRule, subject: Subject, setting: Setting) -> list[Fault]:
    """A fault with the end of the output where the exit code is one of `fail_codes`.

    Exit 0 passes. Every other end is no verdict: raises CannotJudge, transient after a timeout.
    The artifact is on stdin, and `artifact` in the templates. Raises TemplateError.
    """
    names = subject.names(setting.names)
    argv = [parse(argument).render(names) for argument in rule.command]
    stdin = subject.content if rule.stdin is None else parse(rule.stdin).render(names)
    try:
        result = await setting.run(
            argv,
            cwd=setting.folder,
            env=command_environment(rule.env),
            stdin=stdin,
            timeout_s=rule.timeout,
        )
    except CommandNotStarted as error:
        raise CannotJudge(str(error)) from error
    except CommandTimeout as error:
        raise CannotJudge(f"{error}{_saying(error.stdout, error.stderr)}", "transient") from error
    if result.exit_code == 0:
        return []
    if result.exit_code not in rule.fail_codes:
        raise CannotJudge(_no_verdict(argv[0], result, rule))
    return [_fault(argv[0], result)]


def tail(stdout: str, stderr: str, limit: int = TAIL_CHARS) -> str:
    """The end of what was printed, stderr after stdout, without colours and control characters."""
    printed = "\n".join(part for text in (stdout, stderr) if (part := printable(text).strip()))
    if len(printed) <= limit:
        return printed
    # From the start of a line, unless the last line alone is longer.
    _cut, _newline, whole_lines = printed[-limit:].partition("\n")
    return f"…\n{whole_lines or printed[-limit:]}"


def _fault(program: str, result: CommandResult) -> Fault:
    printed = tail(result.stdout, result.stderr)
    ended = f"`{program}` ended with exit code {result.exit_code}"
    message = f"{ended}:\n{printed}" if printed else f"{ended} and printed nothing"
    # Times, counts and addresses differ from run to run, although nothing changed.
    return Fault(message, _MEASURED.sub("#", printed), value=printed)


def _no_verdict(program: str, result: CommandResult, rule: CommandRule) -> str:
    code = result.exit_code
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    codes = ", ".join(map(str, rule.fail_codes)) or "no code"
    return (
        f"`{program}` ended with {ended}, which is no verdict: 0 passes and {codes} fails "
        f"(see `fail_codes`){_saying(result.stdout, result.stderr)}"
    )


def _saying(stdout: str, stderr: str) -> str:
    printed = tail(stdout, stderr, 500)
    return f"; it printed:\n{printed}" if printed else ""
