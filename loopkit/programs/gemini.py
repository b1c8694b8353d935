"""Gemini CLI: `gemini`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from loopkit.programs.arguments import flags
from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Reading, Record
from loopkit.programs.reading import RecordReader, Take, at, count_at, text_at

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
    skipped = frozenset({"tool_result"})

    @property
    def takes(self) -> Mapping[str, Take]:
        return {
            "init": self._begin,
            "message": self._message,
            "tool_use": self._use,
            "error": self._fail,
            "result": self._end,
        }

    def finish(self, stderr: str, exit_code: int, before: Counted, now: datetime) -> Reading:
        # Its exit code is the lowest byte of the HTTP status.
        status = exit_code + _PAST_STATUS
        if self.fault and self.is_complete and status >= _LOWEST_STATUS:
            self.fault = replace(self.fault, status=status)
        return super().finish(stderr, exit_code, before, now)

    def _begin(self, record: Record) -> None:
        self.session = text_at(record, "session_id") or self.session

    def _message(self, record: Record) -> None:
        if record.get("role") == "assistant":
            self._begins_anew |= record.get("delta") is not True
            self.say(text_at(record, "content"))

    def _use(self, record: Record) -> None:
        self.act(text_at(record, "tool_id"), text_at(record, "tool_name"), at(record, "parameters"))

    def _fail(self, record: Record) -> None:
        if record.get("severity") == "error":
            self.fault = Fault(text_at(record, "message"))

    def _end(self, record: Record) -> None:
        self.is_complete = True
        stats = at(record, "stats")
        self.turn = Counted(count_at(stats, "input_tokens"), count_at(stats, "output_tokens"))
        if record.get("status") == "error":
            said = text_at(record, "error.message")
            self.fault = Fault(said) if said else self.fault or Fault("it gives no reason")


GEMINI = Program(
    name="gemini",
    executable="gemini",
    package="@google/gemini-cli",
    lacks={
        "effort": "choose another `model`, or set `modelConfigs` in `.gemini/settings.json`",
        "max_turns": "set `model.maxSessionTurns` in `.gemini/settings.json`",
        "instructions": "write them into the prompt, or into `GEMINI.md`",
        "config": "let `GEMINI_CLI_HOME` under `env` lead to a folder without settings",
    },
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    passed=("GEMINI_CLI_HOME",),
    sign_in="gemini",
    tested=("0.61.0", "0.61.0"),
    command=_command,
    reader=GeminiReader,
)
