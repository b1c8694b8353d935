"""The check of a `command` rule: runs the program and reads its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from loopkit.language import CommandRule
from loopkit.language.noun import INPUT_FILE
from loopkit.language.template import parse
from loopkit.machine.known import over
from loopkit.outside.input_files import input_file
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    command_environment,
)
from loopkit.validators.command.baseline import cap_faults, ids_of, mark_known
from loopkit.validators.command.errors import ending_of
from loopkit.validators.command.output import no_verdict_message, output_clause
from loopkit.validators.command.program_verdict import Start, folder_of, read_result
from loopkit.validators.command.report_file import ReportFile
from loopkit.validators.command.tries import Unfinished, run_until_verdict
from loopkit.validators.fault import CannotJudge, Found
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def check_command(rule: CommandRule, subject: JudgedArtifact, setting: Setting) -> Found:
    """The defects that the program finds in the artifact, which it gets on stdin.

    Its templates can use `artifact`. Raises CannotJudge if there is no verdict, and
    TemplateError.
    """
    found = await _judge(rule, subject.names(setting.names), subject.content, setting)
    faults = mark_known(rule, found.faults, setting)
    return Found(cap_faults(faults, setting.severities), found.reason)


async def baseline_of(rule: CommandRule, setting: Setting) -> list[str]:
    """The ids of what the program finds before there is an artifact; raises as `check_command`.

    Its stdin is empty, unless the rule has a text for it.
    """
    found = await _judge(rule, setting.names, None, setting)
    return ids_of(rule, found.faults, setting)


async def _judge(
    rule: CommandRule, names: Mapping[str, object], content: str | None, setting: Setting
) -> Found:
    names_used = frozenset[str]().union(*(parse(text).names for _, text in rule.templates))
    with input_file(INPUT_FILE, setting.input, names_used) as own:
        names = over(own, names)
        start = Start(
            rule,
            argv=[parse(argument).render(names) for argument in rule.command],
            stdin=content if rule.stdin is None else parse(rule.stdin).render(names),
            file=_report_file(rule, names, setting),
            setting=setting,
        )
        return await run_until_verdict(rule.retry, partial(_run_once, start), setting.pause)


def _report_file(
    rule: CommandRule, names: Mapping[str, object], setting: Setting
) -> ReportFile | None:
    if rule.file is None:
        return None
    return ReportFile(folder_of(setting), parse(rule.file).render(names).strip())


async def _run_once(start: Start) -> Found:
    """Run the program once and read its verdict; raises CannotJudge."""
    rule, program = start.rule, start.argv[0]
    if start.file is not None:
        start.file.clear()
    result = await _run(start)
    ending = ending_of(rule.errors, result)
    if ending is not None:
        code = result.exit_code
        raise CannotJudge(
            f"`{program}` ended with exit code {code}, which is an error by `errors`"
            f"{output_clause(result.stdout, result.stderr)}",
            ending.error_class,
            ending.retry_after_s,
        )
    if result.exit_code != 0 and result.exit_code not in rule.fail_codes:
        error = Unfinished if result.exit_code < 0 else CannotJudge
        raise error(no_verdict_message(program, result, rule))
    return read_result(start, result)


async def _run(start: Start) -> CommandResult:
    rule, setting = start.rule, start.setting
    try:
        return await setting.run(
            start.argv,
            cwd=setting.folder,
            env=command_environment(rule.env),
            stdin=start.stdin,
            timeout_s=rule.timeout,
        )
    except CommandNotStarted as error:
        raise CannotJudge(str(error)) from error
    except CommandTimeout as error:
        raise CannotJudge(
            f"{error}{output_clause(error.stdout, error.stderr)}", "transient"
        ) from error
