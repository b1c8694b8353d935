"""Codex: `codex exec`."""

from __future__ import annotations

import json

from loopkit.programs.faults import Fault
from loopkit.programs.port import Auth, Command, Options, Program, Record, flags
from loopkit.programs.reading import RecordReader, records_at, text_at, tokens_at

_PERMISSIONS = {
    "read": ("--sandbox", "read-only"),
    "edit": ("--sandbox", "workspace-write"),
    "all": ("--dangerously-bypass-approvals-and-sandbox",),
}
_NO_TOOLS = frozenset({"error", "reasoning", "todo_list"})
"""The items that are neither a message nor a call of a tool."""


def _command(options: Options, session: str | None) -> Command:
    argv = ["codex", "exec", "--json", "--skip-git-repo-check", *_PERMISSIONS[options.permissions]]
    settings = _provider(options.base_url, options.auth) if options.base_url else {}
    settings |= {"model_reasoning_effort": options.effort} if options.effort else {}
    settings |= {"developer_instructions": options.instructions} if options.instructions else {}
    argv += flags(("-m", options.model), *(("-c", _setting(*pair)) for pair in settings.items()))
    return Command((*argv, *options.args, *(("resume", session) if session else ()), "-"))


def _setting(key: str, value: object) -> str:
    """A line of its configuration, which is TOML."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _provider(base_url: str, auth: Auth) -> dict[str, object]:
    """The settings of a provider of its own: only such a one tries nothing again by itself."""
    signs_in = {"env_key": "CODEX_API_KEY"} if auth == "key" else {"requires_openai_auth": True}
    own = {"name": "loopkit", "base_url": base_url, "wire_api": "responses", **signs_in}
    own |= {"request_max_retries": 0, "stream_max_retries": 0}
    named = {f"model_providers.loopkit.{key}": value for key, value in own.items()}
    return {"model_provider": "loopkit", **named}


class CodexReader(RecordReader):
    skipped = frozenset({"turn", "item", "error"})

    def take(self, kind: str, record: Record) -> bool:
        match kind:
            case "thread.started":
                self.session = text_at(record, "thread_id") or self.session
            case "item.started" | "item.completed":
                self._work(record.get("item"))
            case "turn.completed":
                self.is_complete = True
                self.total = tokens_at(record, "usage")
            case "turn.failed":
                self.fault = Fault(text_at(record, "error.message"))
            case _:
                return False
        return True

    def _work(self, item: object) -> None:
        kind = text_at(item, "type")
        if kind == "agent_message":
            self.say(text_at(item, "text"), anew=True)
        elif kind not in _NO_TOOLS and isinstance(item, dict):
            paths = ", ".join(text_at(change, "path") for change in records_at(item, "changes"))
            self.act(text_at(item, "id"), text_at(item, "tool") or kind, {"path": paths, **item})


CODEX = Program(
    name="codex",
    executable="codex",
    package="@openai/codex",
    lacks={
        "tools": "its sandbox decides what it may do: set `permissions`",
        "max_turns": "bound it with `timeout`",
        "config": "let `CODEX_HOME` under `env` lead to a folder that has only its login",
    },
    key_variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
    passed=("CODEX_HOME",),
    sign_in="codex login",
    tested=("0.171.0", "0.171.0"),
    command=_command,
    reader=CodexReader,
)
