"""Qwen Code: `qwen`."""

from __future__ import annotations

from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Options, Program, Record, flags
from loopkit.programs.reading import MessagesReader, text_at, tokens_at

_MODES = {"read": "default", "edit": "auto-edit", "all": "yolo"}


def _command(options: Options, session: str | None) -> Command:
    argv = ["qwen", "-o", "stream-json"]
    argv += flags(
        ("--auth-type", "openai" if options.auth == "key" else ""),
        ("--approval-mode", _MODES[options.permissions]),
        ("-m", options.model),
        ("--max-session-turns", options.max_turns),
        ("--append-system-prompt", options.instructions),
        *(("--allowed-tools", tool) for tool in options.tools),
        ("--resume", session),
    )
    argv += ["--safe-mode"] if options.config == "none" else []
    env = {"OPENAI_BASE_URL": options.base_url} if options.base_url else {}
    return Command((*argv, *options.args), env)


class QwenReader(MessagesReader):
    version_key = "qwen_code_version"

    def end(self, record: Record) -> None:
        self.total = tokens_at(record, "usage")
        # Version 0.5.0 reports an error as its result, and as a success.
        if record.get("is_error") is True or self.text.startswith("[API Error: "):
            self.fault = Fault(text_at(record, "error.message") or self.text)


QWEN = Program(
    name="qwen",
    executable="qwen",
    package="@qwen-code/qwen-code",
    lacks={"effort": "choose another `model`"},
    key_variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
    passed=("QWEN_HOME",),
    sign_in="qwen",
    tested=("0.5", "0.24"),
    command=_command,
    reader=QwenReader,
)
