"""Gemini CLI: `gemini`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Reading, Record, flags
from loopkit.programs.reading import RecordReader, text_at, tokens_at

_MODES = {"read": "default", "edit": "auto_edit", "all": "yolo"}
_LOWEST_STATUS, _PAST_STATUS = 400, 256


def _command(options: Options, session: str | None) -> Command:
    argv = ["gemini", "-o", "stream-json", "--skip-trust"]
    argv += flags(
        ("--approval-mode", _MODES[options.permissions]),
        ("-m", options.model),
        *(("--allowed-tools", tool) for tool in options.tools),
        ("--resume", session),
    )
    env = {"GOOGLE_GEMINI_BASE_URL": options.base_url} if options.base_url else {}
    return Command((*argv, *options.args), env)


class GeminiReader(RecordReader):
    skipped = frozenset({"message", "error"})

    def take(self, kind: str, record: Record) -> bool:
        match kind:
            case "init":
                self.session = text_at(record, "session_id") or self.session
            case "message" if record.get("role") == "assistant":
                self.say(text_at(record, "content"), anew=record.get("delta") is not True)
            case "tool_use":
                call, name = text_at(record, "tool_id"), text_at(record, "tool_name")
                self.act(call, name, record.get("parameters"))
            case "tool_result":
                is_refused = text_at(record, "error.message").startswith("Path not in workspace")
                if is_refused or text_at(record, "error.type") == "tool_not_registered":
                    self.deny(text_at(record, "tool_id"))
            case "error" if record.get("severity") == "error":
                self.fault = Fault(text_at(record, "message"))
            case "result":
                self.is_complete = True
                self.turn = tokens_at(record, "stats")
                if record.get("status") == "error":
                    said = text_at(record, "error.message")
                    self.fault = Fault(said) if said else self.fault or Fault("it gives no reason")
            case _:
                return False
        return True

    def finish(self, stderr: str, exit_code: int, before: Counted, now: datetime) -> Reading:
        # Its exit code is the lowest byte of the HTTP status.
        status = exit_code + _PAST_STATUS
        if self.fault and self.is_complete and status >= _LOWEST_STATUS:
            self.fault = replace(self.fault, status=status)
        return super().finish(stderr, exit_code, before, now)


GEMINI = Program(
    name="gemini",
    executable="gemini",
    package="@google/gemini-cli",
    lacks={
        "effort": "choose another `model`, or set `modelConfigs` in `.gemini/settings.json`",
        "max_turns": "set `model.maxSessionTurns` in `.gemini/settings.json`",
        "instructions": "write them into the prompt, or into `GEMINI.md`",
        "config": "let `GEMINI_CLI_HOME` under `env` lead to a folder that has only its login",
    },
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    passed=("GEMINI_CLI_HOME",),
    sign_in="gemini",
    tested=("0.61.0", "0.61.0"),
    command=_command,
    reader=GeminiReader,
)
