"""opencode: `opencode run`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import add

from loopkit.programs.arguments import flags, not_granted
from loopkit.programs.faults import Fault
from loopkit.programs.port import Command, Counted, Options, Program, Record, Why
from loopkit.programs.reading import RecordReader, Take, amount_at, at, combined, count_at, text_at

_REJECTED = "rejected permission"
_CUT_SHORT: dict[str, Why] = {"length": "cut_off", "content-filter": "refusal"}


def _command(options: Options, session: str | None) -> Command:
    argv = ["opencode", "run", "--format", "json"]
    argv += flags(("-m", options.model), ("--variant", options.effort), ("--session", session))
    argv += ["--auto"] if options.permissions == "all" else []
    # By default it may do all.
    refused = {"all": (), "edit": ("bash",), "read": ("bash", "edit")}[options.permissions]
    rules = dict.fromkeys(options.tools, "allow")
    rules |= dict.fromkeys(not_granted(options, *refused), "deny")
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    env |= {"OPENCODE_PERMISSION": json.dumps(rules)} if rules else {}
    return Command((*argv, *options.args), env)


class OpencodeReader(RecordReader):
    skipped = frozenset({"step_start", "reasoning"})

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self.turn = Counted(0, 0, 0.0)

    @property
    def takes(self) -> Mapping[str, Take]:
        return {
            "step_start": self._begin,
            "text": self._say,
            "tool_use": self._use,
            "step_finish": self._finish_step,
            "error": self._fail,
        }

    def _begin(self, record: Record) -> None:
        self.session = text_at(record, "sessionID") or self.session

    def _say(self, record: Record) -> None:
        message = text_at(record, "part.messageID")
        self._begins_anew |= message != self._message
        self._message = message
        self.say(text_at(record, "part.text"))

    def _use(self, record: Record) -> None:
        part = at(record, "part")
        call, state = text_at(part, "callID"), at(part, "state")
        self.act(call, text_at(part, "tool"), at(state, "input"))
        if _REJECTED in text_at(state, "error"):
            self.denied_call(call)

    def _finish_step(self, record: Record) -> None:
        part = at(record, "part")
        step = Counted(
            count_at(part, "tokens.input", "tokens.cache.read", "tokens.cache.write") or 0,
            count_at(part, "tokens.output", "tokens.reasoning") or 0,
            amount_at(part, "cost") or 0.0,
        )
        self.turn = combined(add, self.turn, step)
        reason = text_at(part, "reason")
        # A call that was not allowed ends it.
        self.is_complete = reason != "tool-calls" or bool(self._denied)
        why = _CUT_SHORT.get(reason)
        self.fault = Fault(f"it stopped: {reason}", why=why) if why else None

    def _fail(self, record: Record) -> None:
        self._begin(record)
        error = at(record, "error")
        data = at(error, "data")
        name = text_at(error, "name")
        self.fault = Fault(
            text_at(data, "message") or name,
            count_at(data, "statusCode"),
            why="context" if name == "ContextOverflowError" else None,
            wait=text_at(data, "responseHeaders.retry-after"),
        )


OPENCODE = Program(
    name="opencode",
    executable="opencode",
    package="opencode-ai",
    lacks={
        "max_turns": "set `steps` of its agent in `opencode.json`, or bound it with `timeout`",
        "instructions": "write them into the prompt, or into `AGENTS.md`",
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
