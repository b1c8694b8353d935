"""JSON as models write it: alone, in a fence, in the middle of prose, or with one of four slips.

Mended are comments, single quotes, trailing commas and raw line breaks. `json5`, which reads such
values, takes more, so that every token is looked at first: what is left of JSON's own grammar is
never guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from loopkit.text import HALF, is_broken, one_line
from loopkit.values import Mutable, Value, field

MAX_DEPTH = 64
"""How deep lists and objects may be nested; a machine file has the same limit."""

MOST_ERRORS = 1_000
"""The braces and brackets that are tried in vain in a text; it takes time to place each error."""

MOST_FITTED = 100
"""The maximum number of different values of which the one that fits is looked for."""

_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_OPENING = re.compile(r"[{\[]")
_BEGINNING = re.compile(r"""\{(?=\s*["'}])|\[(?=\s*["{}\[\]\d\-tfnNI])""")
"""Of all other brackets and braces the next character says that they begin no JSON."""
# A text that starts like this is meant as JSON, even if it cannot be parsed.
_MEANT = re.compile(r"\{\s*[\"']|\[\s*[{\"]")
_FAR = 20
"""Characters that were read as JSON before an error, from which on it is meant as JSON."""


class NoJson(Value, frozen=True):
    """The reason why a text has no JSON value, as part of a sentence."""

    reason: str


class JsonInText(Mutable):
    """The outermost objects and lists in a text, and broken attempts at one."""

    values: list[Any] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """The start and end of each value."""
    broken: list[NoJson] = field(default_factory=list)


def parse_json(text: str) -> object | NoJson:
    """The JSON value of the whole text.

    Strict: NaN, infinities and an object with one key twice are refused, because readers interpret
    them differently; so is nesting deeper than 64 levels, and half a surrogate pair.
    """
    try:
        value = _DECODER.decode(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return _no_json_at(error.msg, error.lineno, error.colno)
    except (ValueError, RecursionError) as error:
        return NoJson(_limit(error))
    return _storable(value, text)


def extract_json(text: str, fits: Callable[[object], bool] | None = None) -> object | NoJson:
    """The one value in a text: the whole of it, else in a fence, else an object or list in prose.

    A list in prose has to hold an object or to stand on lines of its own: others are marks, links
    or check boxes. Of different values the only one that `fits` is taken; otherwise, and beside
    something broken, they are refused.
    """
    whole = parse_json(text)
    if not isinstance(whole, NoJson):
        return whole
    if fenced := _values_in_fences(text):
        return _only_one(fenced, fenced, fits)
    found = json_in(text)
    objects = [value for value in found.values if isinstance(value, dict)]
    lists = [
        value
        for value, span in zip(found.values, found.spans, strict=True)
        if is_alone(text, *span) or any(isinstance(one, dict) for one in value)
    ]
    return _only_one([*(objects or lists), *found.broken], [*objects, *lists], fits)


def json_in(text: str) -> JsonInText:
    """All outermost objects and lists in a text, fenced or not, in order."""
    found = JsonInText()
    at = tried = 0
    while tried < MOST_ERRORS and (opening := _BEGINNING.search(text, at)):
        start = opening.start()
        read, at = _read_at(text, start)
        if not isinstance(read, NoJson):
            found.values.append(read)
            found.spans.append((start, at))
            continue
        tried += 1
        if at - start >= _FAR or _MEANT.match(text, start):
            found.broken.append(read)
    if tried == MOST_ERRORS:
        found.broken.append(NoJson(f"{MOST_ERRORS:,} brackets and braces in it begin no JSON"))
    return found


def _read_at(text: str, start: int) -> tuple[object | NoJson, int]:
    """The value that starts there, and where reading goes on after it."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        reason = _no_json_at(error.msg, error.lineno, error.colno)
        return reason, max(error.pos, start + 1)
    except (ValueError, RecursionError) as error:
        # It does not say where: what follows may be a part of this, and must not be taken.
        return NoJson(_limit(error)), len(text)
    return _storable(value, text[start:end]), end


def is_alone(text: str, start: int, end: int) -> bool:
    """Whether nothing else stands on the first and the last line of a value."""
    before, after = start - 1, end
    while before >= 0 and text[before] != "\n" and text[before].isspace():
        before -= 1
    while after < len(text) and text[after] != "\n" and text[after].isspace():
        after += 1
    return (before < 0 or text[before] == "\n") and text[after : after + 1] in ("", "\n")


def canonical(value: object) -> str:
    """A text that is the same for equal JSON values and different for all others.

    1 equals 1.0, true is not a number, keys have no order.
    """
    return json.dumps(_normal(value), sort_keys=True)


def _normal(value: object) -> object:
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {key: _normal(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_normal(inner) for inner in value]
        case _:
            return value


def text_or_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class _Refused(ValueError):
    """Python would accept it, but it is not JSON, or is ambiguous."""


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise _Refused(f'an object has the key "{one_line(twice)}" twice')
    return mapping


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise _Refused(f"{one_line(number)} is too large a number")
    return value


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique
)


def _no_json_at(message: str, line: int, column: int) -> NoJson:
    said = f"{message[:1].lower()}{message[1:]}".removesuffix(" at")
    return NoJson(f"{said} at line {line}, column {column}")


def _limit(error: ValueError | RecursionError) -> str:
    if isinstance(error, _Refused):
        return str(error)
    if isinstance(error, RecursionError):
        return f"it is nested more than {MAX_DEPTH} levels deep"
    # Python limits the digits of a number that it converts.
    return "a number has too many digits"


def _storable(value: object, written: str) -> object | NoJson:
    """The value of what was written, if it is not too deep and all its texts are characters."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in values_inside(outer)]
        if not level:
            may_be = _ESCAPED_HALF.search(written) is not None
            is_odd = may_be and is_broken(json.dumps(value, ensure_ascii=False))
            return NoJson(f"a text in it has {HALF}") if is_odd else value
    return NoJson(f"it is nested more than {MAX_DEPTH} levels deep")


def values_inside(value: object) -> Iterable[object]:
    """The values of a mapping or a list; nothing of anything else."""
    # Most values are single ones, of which the question for a mapping takes longest.
    if value is None or isinstance(value, (str, int, float)):
        return ()
    if isinstance(value, (list, tuple)):
        return value
    return value.values() if isinstance(value, (dict, Mapping)) else ()


def entries_of(value: object) -> Iterable[tuple[Any, Any]]:
    """The keys of a mapping, or the indexes of a list, with their values."""
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def texts_in(
    value: object, at: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield at, value
    for step, inner in entries_of(value):
        yield from texts_in(inner, (*at, step))


def _values_in_fences(text: str) -> list[object]:
    """The values in fences labelled json; without any, in unlabelled ones that look like JSON."""
    from loopkit.text.markdown import code_blocks  # noqa: PLC0415 - a check reads no answers

    fences = code_blocks(text)
    labelled = [code for info, code in fences if info in ("json", "jsonc", "json5")]
    likely = [code for info, code in fences if not info and code.lstrip()[:1] in ("{", "[")]
    read = map(parse_json, labelled or likely)
    return [
        NoJson(f"in the fence, {one.reason}") if isinstance(one, NoJson) else one for one in read
    ]


def _only_one(
    candidates: list[object], values: list[object], fits: Callable[[object], bool] | None
) -> object | NoJson:
    """The only candidate; of several, or where that does not fit, the only value that does."""
    broken = next((value for value in candidates if isinstance(value, NoJson)), None)
    if broken is not None:
        return broken
    if not candidates:
        return NoJson("there is none in the text")
    different = {canonical(value): value for value in values}
    if fits is not None and 1 < len(different) <= MOST_FITTED:
        fitting = list(filter(fits, different.values()))
        if len(fitting) == 1:
            return fitting[0]
    if len({canonical(value) for value in candidates}) > 1:
        return NoJson("there are several different values in the text, and only one is expected")
    return candidates[0]


MOST_MENDED = 50_000
"""The characters that are mended in a text, or looked at in vain: `json5` takes about a second for
them."""
MOST_VALUES = 1_000
"""The brackets and braces of a text at which a value is looked for."""

_ESCAPE = r"\\(?:[\"\\/bfnrt]|u[0-9a-fA-F]{4})"
_TOKEN = re.compile(
    rf"""
      (?P<blank>\s+)
    | (?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)
    | (?P<single>'(?:[^'\\\x00-\x09\x0b\x0c\x0e-\x1f]|{_ESCAPE}|\\')*+')
    | (?P<text>"(?:[^"\\\x00-\x09\x0b\x0c\x0e-\x1f]|{_ESCAPE})*+")
    | (?P<open>[{{\[])
    | (?P<close>[}}\]])
    | (?P<comma>,)
    | : | (?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])
    """,
    re.VERBOSE,
)
_SLIPS = {"comment": "comments", "single": "single quotes"}
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.DOTALL)
MOST_CUT = 20
"""The parts of a value at its end of which the last whole one is looked for."""


@lru_cache(maxsize=16)
def mend(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with strict JSON in place of values that had slips, and the names of the slips.

    A text that ends within a value is cut off, and stays as it is.
    """
    parts: list[str] = []
    slips: dict[str, None] = {}
    at = start = 0
    left = MOST_MENDED
    for _ in range(MOST_VALUES):
        opening = _OPENING.search(text, start)
        if opening is None or left < 0:
            break
        start = opening.start()
        own: dict[str, None] = {}
        end, seen = _end_of_value(text, start, own)
        if end > len(text):
            return text, ()
        left -= (seen - start) if own or seen > end else 0
        if own and end > start and left >= 0 and (mended := _read_mended(text[start:end])):
            parts += [text[at:start], mended]
            slips |= own
            at = end
        start = max(end, start + 1)
    return "".join([*parts, text[at:]]), tuple(slips)


def _end_of_value(text: str, start: int, slips: dict[str, None]) -> tuple[int, int]:
    """Where a value ends, whose slips are added to `slips`: at its start if it is no JSON, and
    beyond the text if that ends within it; and how far it was read."""
    depth, position, after_comma = 0, start, False
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or depth > MAX_DEPTH:
            return start, position
        position, kind = token.end(), token.lastgroup
        if kind in _SLIPS:
            slips[_SLIPS[kind]] = None
        if kind in ("single", "text") and "\n" in token[0]:
            slips["line breaks in a text"] = None
        if kind == "close" and after_comma:
            slips["trailing commas"] = None
        if kind not in ("blank", "comment"):
            after_comma = kind == "comma"
        depth += (kind == "open") - (kind == "close")
        if depth == 0:
            return position, position
    return position + 1, position


def _read_mended(written: str) -> str:
    """The JSON of a value with slips; empty where it has other faults, such as a key twice."""
    import json5  # noqa: PLC0415 - only an answer with slips needs it

    try:
        mended = json.dumps(json5.loads(written, strict=False, allow_duplicate_keys=False))
    except (ValueError, RecursionError):
        return ""
    return "" if isinstance(parse_json(mended), NoJson) else mended


def closed(text: str) -> str:
    """The text up to the last whole part of an object that is cut off, with its brackets closed.

    A text that does not end in an object stays as it is.
    """
    missing: list[str] = []
    parts = deque[tuple[int, list[str]]](maxlen=MOST_CUT)
    for part in _PART.finditer(text, max(text.find("{"), 0)):
        if part[0] in "{[":
            missing.append("}" if part[0] == "{" else "]")
        elif part[0] in "}]" and missing:
            missing.pop()
        parts.append((part.end(), missing[-MAX_DEPTH:]))
    for end, opened in reversed(parts if missing else ()):
        whole = f"{text[:end]}{''.join(reversed(opened))}"
        if not isinstance(parse_json(whole[whole.find("{") :]), NoJson):
            return whole
    return text
