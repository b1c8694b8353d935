"""GitHub Copilot CLI: `copilot`."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.programs.arguments import flags, not_granted
from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Options, Program, Record
from loopkit.programs.reading import RecordReader, Take, at, count_at, text_at


def _command(options: Options, session: str | None) -> Command:
    argv = ["copilot", "--output-format", "json", "--no-auto-update", "--no-color", "--no-ask-user"]
    allowed = ("write", *options.tools) if options.permissions == "edit" else options.tools
    refused = not_granted(options, "write", "shell") if options.permissions == "read" else []
    argv += ["--allow-all"] if options.permissions == "all" else []
    argv += [f"--allow-tool={tool}" for tool in allowed]
    argv += [f"--deny-tool={tool}" for tool in refused]
    argv += flags(("--model", options.model), ("--reasoning-effort", options.effort))
    argv += [f"--resume={session}"] if session else []
    env = {"COPILOT_PROVIDER_BASE_URL": options.base_url} if options.base_url else {}
    return Command((*argv, *options.args), env)


class CopilotReader(RecordReader):
    skipped = frozenset({"session", "user", "assistant", "model", "tool"})

    @property
    def takes(self) -> Mapping[str, Take]:
        return {
            "assistant.message": self._message,
            "tool.execution_start": self._start,
            "tool.execution_complete": self._complete,
            "session.error": self._fail,
            "result": self._end,
        }

    def _message(self, record: Record) -> None:
        if said := text_at(record, "data.content"):
            self._begins_anew = True
            self.say(said)

    def _start(self, record: Record) -> None:
        data = at(record, "data")
        self.act(text_at(data, "toolCallId"), text_at(data, "toolName"), at(data, "arguments"))

    def _complete(self, record: Record) -> None:
        if text_at(record, "data.error.code") == "denied":
            self.denied_call(text_at(record, "data.toolCallId"))

    def _fail(self, record: Record) -> None:
        data = at(record, "data")
        # What it says of its own retries names waits that are over.
        said = text_at(data, "message").rpartition("Last error: ")[2]
        self.fault = Fault(said, count_at(data, "statusCode"))

    def _end(self, record: Record) -> None:
        self.is_complete = True
        self.session = text_at(record, "sessionId") or self.session
        code = record.get("exitCode")
        self.fault = (self.fault or Fault(f"it ended with exit code {code}")) if code else None


COPILOT = Program(
    name="copilot",
    executable="copilot",
    package="@github/copilot",
    lacks={
        "max_turns": "bound it with `timeout`",
        "instructions": "write them into the prompt, or into `AGENTS.md`",
    },
    key_variables=(
        "COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN",
    ),
    passed=("COPILOT_HOME",),
    sign_in="copilot login",
    tested=("1.0.102", "1.0.102"),
    command=_command,
    reader=CopilotReader,
)  # fmt: skip
