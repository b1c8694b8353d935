"""opencode: `opencode run`."""

from __future__ import annotations

import json
from operator import add

from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Record, Why, flags
from loopkit.programs.reading import RecordReader, amount_at, at, combined, count_at, text_at

_REJECTED = "rejected permission"
_CUT_SHORT: dict[str, Why] = {"length": "cut_off", "content-filter": "refusal"}


def _command(options: Options, session: str | None) -> Command:
    argv = ["opencode", "run", "--format", "json"]
    argv += flags(("-m", options.model), ("--variant", options.effort), ("--session", session))
    argv += ["--auto"] if options.permissions == "all" else []
    # By default it may do all.
    refused = {"all": (), "edit": ("bash",), "read": ("bash", "edit")}[options.permissions]
    rules = dict.fromkeys(options.tools, "allow")
    rules |= dict.fromkeys(options.not_granted(*refused), "deny")
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    env |= {"OPENCODE_PERMISSION": json.dumps(rules)} if rules else {}
    return Command((*argv, *options.args), env)


class OpencodeReader(RecordReader):
    skipped = frozenset({"step_start", "reasoning"})

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self.turn = Counted(0, 0, 0.0)

    def take(self, kind: str, record: Record) -> bool:
        self.session = text_at(record, "sessionID") or self.session
        part = record.get("part")
        match kind:
            case "text":
                message = text_at(part, "messageID")
                self.say(text_at(part, "text"), anew=message != self._message)
                self._message = message
            case "tool_use":
                call = text_at(part, "callID")
                self.act(call, text_at(part, "tool"), at(part, "state.input"))
                if _REJECTED in text_at(part, "state.error"):
                    self.deny(call)
            case "step_finish":
                self._finish_step(part)
            case "error":
                self.fault = _fault(record.get("error"))
            case _:
                return False
        return True

    def _finish_step(self, part: object) -> None:
        step = Counted(
            count_at(part, "tokens.input", "tokens.cache.read", "tokens.cache.write") or 0,
            count_at(part, "tokens.output", "tokens.reasoning") or 0,
            amount_at(part, "cost") or 0.0,
        )
        self.turn = combined(add, self.turn, step)
        reason = text_at(part, "reason")
        # A call of a tool that was not allowed ends it.
        self.is_complete = reason != "tool-calls" or bool(self._denied)
        why = _CUT_SHORT.get(reason)
        self.fault = Fault(f"its answer ended early: {reason}", why=why) if why else None


def _fault(error: object) -> Fault:
    name = text_at(error, "name")
    return Fault(
        text_at(error, "data.message") or name,
        count_at(error, "data.statusCode"),
        "context" if name == "ContextOverflowError" else None,
        text_at(error, "data.responseHeaders.retry-after"),
    )


OPENCODE = Program(
    name="opencode",
    executable="opencode",
    package="opencode-ai",
    lacks={
        "max_turns": "set `steps` of its agent in `opencode.json`, or bound it with `timeout`",
        "instructions": "write them into the prompt, or into `AGENTS.md`",
        "config": "let `XDG_CONFIG_HOME` under `env` lead to an empty folder",
        "base_url": "set `options.baseURL` of a provider in `opencode.json`",
    },
    key_variables=(
        "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY",
        "OPENROUTER_API_KEY", "OPENCODE_API_KEY",
    ),
    passed=(
        "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    ),
    sign_in="opencode auth login",
    tested=("1.18.33", "1.18.33"),
    command=_command,
    reader=OpencodeReader,
)  # fmt: skip
