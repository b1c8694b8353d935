"""Claude Code: `claude -p`."""

from __future__ import annotations

from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Record, Why, flags
from loopkit.programs.reading import MessagesReader, amount_at, at, count_at, text_at, texts_at

_CAUSES: dict[str, Why] = {
    "error_max_turns": "turns",
    "max_output_tokens": "cut_off",
    "prompt_too_long": "context",
    "refusal": "refusal",
    "usage_limit_reached": "quota",
}
_CAUSE_KEYS = ("subtype", "terminal_reason", "api_error", "stop_reason")


def _command(options: Options, session: str | None) -> Command:
    argv = ["claude", "-p", "--output-format", "stream-json", "--verbose"]
    if options.permissions == "all":
        argv += ["--dangerously-skip-permissions"]
    elif options.permissions == "edit":
        argv += ["--permission-mode", "acceptEdits"]
    else:
        refused = options.not_granted("Edit", "Write", "NotebookEdit", "Bash")
        argv += ["--permission-mode", "default"]
        argv += ["--disallowedTools", *refused] if refused else []
    argv += ["--allowedTools", *options.tools] if options.tools else []
    argv += flags(
        ("--model", options.model),
        ("--effort", options.effort),
        ("--max-turns", options.max_turns),
        ("--append-system-prompt", options.instructions),
        ("--resume", session),
    )
    argv += ["--safe-mode", "--setting-sources", ""] if options.config == "none" else []
    env = {"CLAUDE_CODE_MAX_RETRIES": "0", "DISABLE_AUTOUPDATER": "1"}
    env |= {"ANTHROPIC_BASE_URL": options.base_url} if options.base_url else {}
    return Command((*argv, *options.args), env)


class ClaudeReader(MessagesReader):
    version_key = "claude_code_version"
    _resets_at = ""

    def take(self, kind: str, record: Record) -> bool:
        if kind != "rate_limit_event":
            return super().take(kind, record)
        if text_at(record, "rate_limit_info.status") == "rejected":
            self._resets_at = str(count_at(record, "rate_limit_info.resetsAt") or "")
        return True

    def end(self, record: Record) -> None:
        inputs = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        usage = at(record, "usage")
        self.turn = Counted(count_at(usage, *inputs), count_at(usage, "output_tokens"))
        self.total = Counted(cost_usd=amount_at(record, "total_cost_usd"))
        named = [text_at(record, key) for key in _CAUSE_KEYS]
        why = next((_CAUSES[name] for name in named if name in _CAUSES), None)
        if record.get("is_error") is True or why:
            said = self.text or "; ".join(texts_at(record, "errors")) or named[0]
            status = count_at(record, "api_error_status")
            self.fault = Fault(said, status, why, self._resets_at if why == "quota" else "")


CLAUDE = Program(
    name="claude",
    executable="claude",
    package="@anthropic-ai/claude-code",
    lacks={},
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    passed=("CLAUDE_CONFIG_DIR",),
    sign_in="claude auth login",
    tested=("2.1", "2.1"),
    command=_command,
    reader=ClaudeReader,
)
