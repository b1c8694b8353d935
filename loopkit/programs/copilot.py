"""GitHub Copilot CLI: `copilot`."""

from __future__ import annotations

from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Record, flags
from loopkit.programs.reading import RecordReader, at, count_at, text_at


def _command(options: Options, session: str | None) -> Command:
    argv = ["copilot", "--output-format", "json", "--no-auto-update", "--no-color", "--no-ask-user"]
    allowed = ("write", *options.tools) if options.permissions == "edit" else options.tools
    refused = options.not_granted("write", "shell") if options.permissions == "read" else []
    argv += ["--allow-all"] if options.permissions == "all" else []
    argv += [f"--allow-tool={tool}" for tool in allowed]
    argv += [f"--deny-tool={tool}" for tool in refused]
    argv += flags(("--model", options.model), ("--reasoning-effort", options.effort))
    argv += [f"--resume={session}"] if session else []
    env = {"COPILOT_PROVIDER_BASE_URL": options.base_url} if options.base_url else {}
    return Command((*argv, *options.args), env)


class CopilotReader(RecordReader):
    skipped = frozenset({"session", "user", "assistant", "model", "tool"})

    def take(self, kind: str, record: Record) -> bool:
        data = record.get("data")
        match kind:
            case "assistant.message":
                if said := text_at(data, "content"):
                    self.say(said, anew=True)
            case "tool.execution_start":
                call, name = text_at(data, "toolCallId"), text_at(data, "toolName")
                self.act(call, name, at(data, "arguments"))
            case "tool.execution_complete":
                if text_at(data, "error.code") == "denied":
                    self.deny(text_at(data, "toolCallId"))
            case "session.error":
                # What it says of its own tries names waits that are over.
                said = text_at(data, "message").rpartition("Last error: ")[2]
                self.fault = Fault(said, count_at(data, "statusCode"))
            case "result":
                self.is_complete = True
                self.session = text_at(record, "sessionId") or self.session
                code = record.get("exitCode")
                self.fault = (
                    (self.fault or Fault(f"it ended with exit code {code}")) if code else None
                )
            case "" if isinstance(models := record.get("modelMetrics"), dict):
                self.total = Counted(
                    sum(count_at(model, "usage.inputTokens") or 0 for model in models.values()),
                    sum(count_at(model, "usage.outputTokens") or 0 for model in models.values()),
                )
            case _:
                return False
        return True


COPILOT = Program(
    name="copilot",
    executable="copilot",
    package="@github/copilot",
    lacks={
        "max_turns": "bound it with `timeout`",
        "instructions": "write them into the prompt, or into `AGENTS.md`",
        "config": "let `COPILOT_HOME` under `env` lead to a folder that has only its login",
    },
    key_variables=(
        "COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN",
    ),
    passed=("COPILOT_HOME",),
    sign_in="copilot login",
    tested=("1.0.102", "1.0.102"),
    command=_command,
    reader=CopilotReader,
    usage_flag="--usage-output-file",
)  # fmt: skip
