"""What the streams of all programs have in common: records that come line by line, and an end."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any, ClassVar

from loopkit.programs.faults import Fault, failed_by, printed_fault
from loopkit.programs.port import Action, Counted, Reading, Record
from loopkit.text import one_line

_EDITS = frozenset({
    "applypatch", "create", "edit", "filechange", "multiedit", "notebookedit", "patch", "replace",
    "strreplaceeditor", "write", "writefile",
})  # fmt: skip
"""The tools that change a file, in lower case and without `_`."""
_SUBJECTS = (
    *("file_path", "filePath", "path", "notebook_path", "command", "cmd", "query", "pattern"),
    *("url", "description", "prompt"),
)
"""The arguments that say what a call of a tool is about, the best first."""


class RecordReader(ABC):
    """Reads one call; the class of a program says what its records mean."""

    skipped: ClassVar[frozenset[str]] = frozenset()
    """The types of records that are known and not needed; of `tool.start`, the word `tool`."""

    def __init__(self) -> None:
        self.session: str | None = None
        self.version: str | None = None
        self.text = ""
        """What it has said last, without the talk before a tool."""
        self.is_complete = False
        """Whether the record has come that ends a stream."""
        self.fault: Fault | None = None
        self.turn = Counted()
        self.total = Counted()
        self._begins_anew = False
        self._actions: dict[str, Action] = {}
        self._denied: dict[str, None] = {}
        self._unknown = 0
        self._has_begun = False
        self._other_lines: list[str] = []

    @abstractmethod
    def take(self, kind: str, record: Record) -> bool:
        """Read a record; false if its type is not known."""

    def feed(self, line: str) -> Sequence[Action]:
        seen = len(self._actions)
        for record in self._records_in(line):
            kind = text_at(record, "type")
            is_skipped = kind.partition(".")[0] in self.skipped
            self._unknown += not self.take(kind, record) and not is_skipped
        return tuple(self._actions.values())[seen:]

    def finish(self, stderr: str, exit_code: int, before: Counted, now: datetime) -> Reading:
        fault = self.fault
        if fault is None and not self.is_complete:
            printed = stderr if stderr.strip() else "\n".join(self._other_lines)
            fault = printed_fault(printed, exit_code, began=self._has_begun)
        return Reading(
            text=self.text if fault is None else None,
            failed=failed_by(fault, now) if fault else None,
            session=self.session,
            version=self.version,
            turn=combined(_spent, self.turn, self.total, before),
            total=combined(_kept, self.total, before),
            denied=tuple(self._denied),
            actions=tuple(self._actions.values()),
            unknown=self._unknown,
        )

    def say(self, piece: str, *, anew: bool) -> None:
        """Add to the answer, which also begins anew after each call of a tool."""
        self.text = piece if anew or self._begins_anew else self.text + piece
        self._begins_anew = False

    def act(self, call: str, name: str, arguments: object) -> None:
        """Note a call of a tool, once for each id."""
        kind: Any = "edit" if name.replace("_", "").lower() in _EDITS else "tool"
        action = Action(kind, name, _subject(arguments))
        self._actions.setdefault(call or str(len(self._actions)), action)
        self._begins_anew = True

    def deny(self, call: str) -> None:
        """Note that a call of a tool was not allowed."""
        if action := self._actions.get(call):
            about = f": {action.about}" if action.about else ""
            self._denied[f"`{action.name}` was not allowed{about}"] = None

    def _records_in(self, line: str) -> Iterator[Record]:
        try:
            value = json.loads(line.removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            self._other_lines += [line] if line.strip() else []
            return
        # A program that was asked for one list prints it on one line.
        for record in value if isinstance(value, list) else [value]:
            if isinstance(record, dict):
                self._has_begun = True
                yield record


class MessagesReader(RecordReader):
    """Reads messages as Anthropic's API writes them, between a first `system` and a `result`."""

    skipped = frozenset({"user", "stream_event"})
    version_key: ClassVar[str]

    @abstractmethod
    def end(self, record: Record) -> None:
        """Read the last record."""

    def take(self, kind: str, record: Record) -> bool:
        self.session = text_at(record, "session_id") or self.session
        match kind:
            case "system":
                self.version = text_at(record, self.version_key) or self.version
            case "assistant":
                for block in records_at(record, "message.content"):
                    if text_at(block, "type") == "tool_use":
                        self.act(text_at(block, "id"), text_at(block, "name"), block.get("input"))
            case "result":
                self.is_complete = True
                self.text = text_at(record, "result")
                for denial in records_at(record, "permission_denials"):
                    call, name = text_at(denial, "tool_use_id"), text_at(denial, "tool_name")
                    self.act(call, name, denial.get("tool_input"))
                    self.deny(call)
                self.end(record)
            case _:
                return False
        return True


def at(value: object, path: str) -> Any:
    """The value at a path such as `error.message`; None where there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def text_at(value: object, path: str) -> str:
    found = at(value, path)
    return found if isinstance(found, str) else ""


def texts_at(value: object, path: str) -> list[str]:
    return [each for each in _list_at(value, path) if isinstance(each, str)]


def records_at(value: object, path: str) -> list[Record]:
    return [each for each in _list_at(value, path) if isinstance(each, dict)]


def _list_at(value: object, path: str) -> list[Any]:
    found = at(value, path)
    return found if isinstance(found, list) else []


def amount_at(value: object, path: str) -> float | None:
    found = at(value, path)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and 0 <= found < math.inf else None


def count_at(value: object, *paths: str) -> int | None:
    """The sum of the whole numbers at these paths; None where there is none."""
    counts = [amount for path in paths if (amount := amount_at(value, path)) is not None]
    return int(sum(counts)) if counts else None


def tokens_at(value: object, path: str) -> Counted:
    """The tokens under their usual names, in the record at a path."""
    usage = at(value, path)
    return Counted(count_at(usage, "input_tokens"), count_at(usage, "output_tokens"))


def _subject(arguments: object) -> str:
    return one_line(next((text for key in _SUBJECTS if (text := text_at(arguments, key))), ""))


def combined(combine: Callable[..., Any], *counted: Counted) -> Counted:
    """Each field by the same fields of these."""
    return Counted(*map(combine, *map(astuple, counted)))


def _spent(own: float | None, total: float | None, before: float | None) -> float | None:
    """What a call spent: as its record says, else what its session has grown by."""
    if own is not None or total is None:
        return own
    return max(total - (before or 0), 0)


def _kept(total: float | None, before: float | None) -> float | None:
    """The sum of a session, of which a call that failed may report none or less."""
    return before if total is None else max(total, before or 0)
