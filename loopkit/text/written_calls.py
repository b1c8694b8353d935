"""A tool call that a model has written as text, because its server did not read it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection

from loopkit.text.json_text import json_in
from loopkit.text.markdown import without_code
from loopkit.values import Value

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
