"""The thoughts that a model writes around its answer, such as `<think>…</think>`, and tool calls
that it has written as text, because its server did not read them.

A mark counts where a line or a sentence begins. In a fence, between backticks and in a string of
JSON it belongs to the answer; so does all of a text that is JSON.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from functools import cache
from typing import Literal, TypeAlias

from loopkit.text.json_text import NoJson, json_in, parse_json
from loopkit.text.markdown import without_code
from loopkit.values import Value

Marks: TypeAlias = tuple[str, str]
"""The text that opens a thought, and the one that closes it."""

_WORDS = "(?i:(?:seed:)?think|thinking|thoughts?|reasoning)"
# Qwen, DeepSeek and many others; Mistral; Kimi; Sky-T1; Gemma; MedGemma; Command.
_OTHERS = {
    "[THINK]": "[/THINK]", "◁think▷": "◁/think▷", "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel>thought": "<channel|>", "<unused94>thought": "<unused95>",
    "<|START_THINKING|>": "<|END_THINKING|>",
}  # fmt: skip
_OPENING = "|".join([rf"<{_WORDS}>", *map(re.escape, _OTHERS)])
_CLOSING = "|".join([rf"</{_WORDS}>", *map(re.escape, _OTHERS.values())])
# gpt-oss: each message has a channel, and only that of `final` is the answer. A server that leaves
# out the marks runs their words together. Sky-T1 and Command have marks around the answer as well.
_MESSAGE = (
    r"(?:<\|start\|>[^<\n]*)?<\|channel\|>\s*(?P<channel>\w+)[^<]*(?:<\|constrain\|>[^<]*)?"
    r"<\|message\|>|\A(?P<bare>analysis)(?=.*assistantfinal)"
    r"|<\|(?P<answer>begin_of_solution|START_RESPONSE)\|>"
)
_END_OF_MESSAGE = re.compile(
    r"<\|(?:end|return|call|end_of_solution|END_RESPONSE)\|>|(?=<\|(?:start|channel)\|>)"
    r"|assistantfinal|\Z"
)
_CODE = (
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*\n(?:(?! {0,3}(?P=fence))[^\n]*\n)*+"
    r" {0,3}(?P=fence)[`~]*[ \t\r]*$"
    r"|(?<!`)(?P<ticks>``?)(?!`)[^`\n]+(?P=ticks)"
    r'|[\[{,:]\s*+"(?:[^"\\\n]|\\.)*+"(?=\s*[,:}\]])'
)
_NEAR = 200
"""The characters before a mark that are looked at."""


@cache
def _patterns(marks: Marks | None) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A pattern for any mark, and one for a mark or what protects it."""
    opening, closing = (_OPENING, _CLOSING) if marks is None else map(re.escape, marks)
    message = _MESSAGE if marks is None else r"(?P<channel>(?P<bare>(?P<answer>(?!))))"
    alone = rf"^[ \t]*(?P<alone>{closing})[ \t\r]*$"
    scanned = f"{_CODE}|{message}|{alone}|(?P<open>{opening})"
    flags = re.MULTILINE | re.DOTALL
    return re.compile(f"{message}|{opening}|{closing}", re.DOTALL), re.compile(scanned, flags)


def set_apart(text: str, marks: Marks | Literal["keep"] | None = None) -> tuple[str, str]:
    """The text without its thoughts, and the thoughts; the text unchanged where it has none.

    `marks` are looked for instead of the known ones; with `keep` there are none. A thought that is
    never closed has all that follows. A closing mark that was never opened and is alone on its line
    closes a thought that began with the text.
    """
    if marks == "keep":
        return text, ""
    any_mark, scanned = _patterns(marks)
    if not any_mark.search(text) or not isinstance(parse_json(text), NoJson):
        return text, ""
    kept: list[str] = []
    thoughts: list[str] = []
    at = position = 0
    last = {one[0].lower(): one.start() for one in any_mark.finditer(text)}
    while mark := scanned.search(text, position):
        start, position = mark.span()
        if mark["channel"] or mark["bare"] or mark["answer"]:
            end = _END_OF_MESSAGE.search(text, position)
            assert end is not None
            kept.append(text[at:start])
            part = kept if mark["channel"] == "final" or mark["answer"] else thoughts
            part.append(text[position : end.start()])
            at = position = end.end()
        elif mark["alone"]:
            thoughts.append("".join([*kept, text[at:start]]))
            kept, at = [], position
        elif opening := mark["open"]:
            closing = marks[1] if marks else _OTHERS.get(opening, f"{opening[0]}/{opening[1:]}")
            is_closed = position <= last.get(closing.lower(), -1)
            if _may_begin(text, at, start, is_closed=is_closed):
                kept.append(text[at:start])
                closed, at = _end_of_thought(text, position, opening, closing)
                thoughts.append(text[position:closed])
                position = at
    if not at:
        return text, ""
    answer = "".join([*kept, text[at:]]).lstrip()
    return answer, "\n\n".join(filter(None, map(str.strip, thoughts)))


def _may_begin(text: str, at: int, start: int, *, is_closed: bool) -> bool:
    """Whether a thought may begin there; the answer goes on at `at`."""
    before = text[max(at, start - _NEAR) : start].rstrip(" \t\r")
    return not before or before[-1] in "\n.!?…。！？" or (is_closed and before[-1] in ":,>：，")


def _end_of_thought(text: str, begin: int, opening: str, closing: str) -> tuple[int, int]:
    """Where a thought ends, and where the text goes on; the end of the text if it is never closed.

    A thought that is opened inside it is a part of it.
    """
    pair = re.compile(f"{re.escape(closing)}|(?P<open>{re.escape(opening)})", re.IGNORECASE)
    depth, last = 1, (len(text), len(text))
    for mark in pair.finditer(text, begin):
        if text[mark.start() - 1] + text[mark.end() : mark.end() + 1] in ("``", '""', "''"):
            continue
        if not mark["open"]:
            depth, last = depth - 1, mark.span()
        elif _may_begin(text, begin, mark.start(), is_closed=True):
            depth += 1
        if depth == 0:
            break
    return last


MOST_CODE = 10_000
"""Characters of Python code that are read."""
_CALL = (
    r"(?:<[|｜]?/?(?:tool|function)[_▁]?(?:calls?|sep)(?:_section|_argument)?(?:[_▁](?:begin|end))?"
    r"[|｜]?>|<\|python_tag\|>|</?function(?:=[\w.-]+)?>|\[/?TOOL_CALLS\]|\[ARGS\])"
)
_AROUND = re.compile(rf"{_CALL}|</?tools>|^[ \t]*```\w*[ \t]*(?:$|(?=<))", re.MULTILINE)
"""The marks of a call, and its fence."""
_MARKED = re.compile(rf"^[ \t]*{_CALL}\s*(?:[\[{{<]|[\w.:-]+\s*[\[{{<])", re.MULTILINE)
"""A mark at the beginning of a line, with the beginning of a call behind it."""
_BEGUN = re.compile(
    r"""\s*+(?:```\w*\s*+)?\[?\s*+\{\s*["']name["']\s*:\s*["']([\w.-]+)["']\s*,"""
    r"""\s*["'](?:arguments|parameters)["']"""
)
_FENCED = re.compile(r"\s*```tool_(?:code|calls?)[ \t]*\n(.*?)```", re.DOTALL)
_PYTHON = re.compile(r"\s*(?:<\|python_tag\|>)?\[?(([\w.]+)\(.*\))\]?\s*", re.DOTALL)
_NAMED = re.compile(
    rf"(?:{_CALL}|\s|function(?=<))*?(?:<function=([\w.-]+)>|(?:functions\.)?([\w-]+)(?::\d+)?)"
    rf"\s*(?:{_CALL}|```json\s*)?"
)
"""What stands before the arguments where these are the only JSON."""
_IN_CHANNEL = re.compile(
    r" to=functions\.([\w-]+)[^{}]*<\|message\|>\s*(\{[^<]*\})\s*(?:<\|call\|>|\Z)"
)
_KEYS = {"name", "arguments", "parameters", "type", "id"}
_OTHER_KEYS = dict.fromkeys(("tool", "tool_name", "function", "action"), "name")
_OTHER_KEYS |= dict.fromkeys(("args", "input", "tool_input", "action_input"), "arguments")
"""What models write instead of `name` and `arguments`; only the name of a tool makes it a call."""


class WrittenCall(Value, frozen=True):
    name: str
    arguments: str
    """A JSON object, unless the model made a mistake."""


def read_call(text: str, offered: Collection[str]) -> WrittenCall | str | None:
    """The call of an offered tool that a text is; None if no call is meant.

    If one is meant, and the text is not exactly one call that can be made: the reason. A record
    amid other text is no call, unless it has the marks of one.
    """
    values, gaps = _values_in(text)
    calls = [call for value in values if (call := _call_in(value, offered)) is not None]
    code = _FENCED.match(text) or _PYTHON.fullmatch(text)
    begun = _BEGUN.match(text)
    if code is not None and code.re is _PYTHON and code[2] not in offered:
        code = None
    if code is not None and (called := _call_in_code(code[1])) is not None:
        calls = [called]
        values = [called]
        gaps = [text[code.end() :].strip()]
    # A text about such marks has them in its code.
    is_marked = code is not None or bool(
        _MARKED.search(text) and _MARKED.search(without_code(text))
    )
    if is_marked and not calls and len(values) == 1 and (named := _NAMED.fullmatch(gaps[0])):
        calls = [WrittenCall(named[1] or named[2], json.dumps(values[0], ensure_ascii=False))]
        gaps = gaps[1:]
    gaps = [_AROUND.sub("", gap).strip() for gap in gaps]
    is_begun = begun is not None and begun[1] in offered
    is_known = any(call.name in offered for call in calls)
    is_at_edge = is_known and not (gaps[0] and gaps[-1])
    is_whole = len(calls) == len(values) > 0 and not any(gaps)
    if not (is_marked or is_begun or is_at_edge or is_whole):
        return None
    if not calls:
        return "it can't be read"
    if len(values) > 1:
        return f"there are {len(values)} values in it, and only one call at a time is made"
    if any(gaps):
        return "there is other text around it"
    if not is_known:
        known = ", ".join(map("`{}`".format, offered))
        return f"there is no tool `{calls[0].name:.60}`; there are {known}"
    return calls[0]


def call_of_channel(raw: str) -> str:
    """The record of the only call that gpt-oss makes in its channels; empty if it makes none."""
    calls = _IN_CHANNEL.findall(raw)
    return f'{{"name": "{calls[0][0]}", "arguments": {calls[0][1]}}}' if len(calls) == 1 else ""


def _values_in(text: str) -> tuple[list[object], list[str]]:
    """The JSON values in a text, those of lists one by one, and the text around and between."""
    found = json_in(text)
    values: list[object] = []
    for value in found.values:
        match value:
            case (list() as several) | {"tool_calls": list() as several}:
                values += several
            case _:
                values.append(value)
    starts = [*(start for start, _ in found.spans), len(text)]
    ends = [0, *(end for _, end in found.spans)]
    return values, [text[end:start].strip() for end, start in zip(ends, starts, strict=True)]


def _call_in(value: object, offered: Collection[str]) -> WrittenCall | None:
    record = value.get("function", value) if isinstance(value, dict) else None
    record = value if isinstance(record, str) else record
    if not isinstance(record, dict):
        return None
    named = {_OTHER_KEYS.get(key, key): one for key, one in record.items()}
    if len(named) == len(record) and named.get("name") in [*offered]:
        record = named
    if not record.keys() <= _KEYS:
        return None
    given = [record[key] for key in ("arguments", "parameters") if key in record]
    if not isinstance(record.get("name"), str) or len(given) != 1:
        return None
    text = given[0] if isinstance(given[0], str) else json.dumps(given[0] or {}, ensure_ascii=False)
    return WrittenCall(record["name"], text)


def _call_in_code(code: str) -> WrittenCall | None:
    """The call in one expression of Python with plain values, which may be printed."""
    try:
        call = ast.parse(code[:MOST_CODE].strip(), mode="eval").body
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "print":
            [call] = call.args
        if not isinstance(call, ast.Call) or call.args:
            return None
        given = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        name = ast.unparse(call.func).rpartition(".")[2]
        return WrittenCall(name, json.dumps(given, ensure_ascii=False, allow_nan=False))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
