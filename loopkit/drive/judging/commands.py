"""Commands of validators: played by the scenario, or else really run; and recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loopkit.agents.port import AgentError
from loopkit.drive.active import ActiveRun
from loopkit.engine.events import Ran
from loopkit.outside.input_files import without_folders
from loopkit.outside.processes import CommandNotStarted, CommandResult, CommandTimeout, run_command
from loopkit.outside.redaction import Redact
from loopkit.validators.setting import Setting

KEPT_CHARS = 100_000
"""Characters that are kept of the end of a command's output, as many as a scenario can play."""


def result_index(active: ActiveRun, state: str, validator: str) -> int:
    """Which of a scenario's results a validator gets now: the baseline's is the first."""
    return active.state.visit - 1 + ((state, validator) in active.state.baselines)


def give_commands(
    active: ActiveRun, validator: str, index: int, setting: Setting, ran: list[Ran]
) -> None:
    """Give a setting the command results that a scenario prepares for this validator.

    A record of each command is added to `ran`.
    """
    tries: dict[tuple[str, ...], int] = {}
    clean = _text_cleaner(active.redact, setting.folder)

    async def run(
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: str | None,
        timeout_s: float,
    ) -> CommandResult:
        earlier = tries.get(tuple(argv), 0)
        tries[tuple(argv)] = earlier + 1
        try:
            played = active.commands.result(validator, index, cwd, earlier)
            result = played or await run_command(
                argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s
            )
        except AgentError as error:
            raise CommandNotStarted(error.message) from error
        except CommandNotStarted as error:
            ran.append(Ran(validator=validator, fault="not_found", message=str(error)))
            raise
        except CommandTimeout as late:
            late.stdout, late.stderr = clean(late.stdout), clean(late.stderr)
            ran.append(_run_record(validator, late, fault="timeout", message=str(late)))
            raise
        result = replace(result, stdout=clean(result.stdout), stderr=clean(result.stderr))
        ran.append(_run_record(validator, result, exit_code=result.exit_code))
        return result

    def note_file(name: str, text: str) -> None:
        if len(text) <= KEPT_CHARS:
            ran[-1] = ran[-1].replace(files={name: text})

    setting.run, setting.note_file = run, note_file
    setting.redact, setting.pause, setting.now = clean, active.pause, active.clock.now


def _text_cleaner(redact: Redact, folder: Path | None) -> Redact:
    """A function that removes secrets from a text, and makes paths of the workspace relative.

    So a finding is the same one in another copy of the workspace, and when a run is replayed.
    """

    def clean(text: str) -> str:
        text = without_folders(redact(text))
        places = {str(place) for place in (folder, folder and folder.resolve()) if place} - {"/"}
        if not any(place in text for place in places):
            return text
        either = "|".join(map(re.escape, sorted(places)))
        # Only where a path begins: `/notes/` is not a part of `/home/me/notes/`.
        return re.sub(rf"(?<![\w.~/-])(?:file://)?(?:{either})/", "", text)

    return clean


def _run_record(validator: str, printed: CommandResult | CommandTimeout, **ended: Any) -> Ran:
    stdout, stderr = (text[-KEPT_CHARS:] for text in (printed.stdout, printed.stderr))
    return Ran(validator=validator, stdout=stdout, stderr=stderr, **ended)
