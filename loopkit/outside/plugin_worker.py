"""One call of a plug-in or a tool, in the process that is made for it:
`python -m loopkit.outside.plugin_worker`.

Reads a request as JSON on stdin, and writes the answer as JSON to what was stdout. A plug-in gives
`findings`, or `error` with the reason why there is no verdict; a tool, which has `arguments`, its
`result`, what it `raised`, or `error` where there is none.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from loopkit.plugins import CALL, CALL_VARIABLE, ENTRY_POINTS, Context, Finding
from loopkit.text import printable, shorten, storable

MAX_FINDINGS = 50
MAX_RESULT = 1_000_000
"""Characters of what a tool returned."""
MAX_CHARS = 2_000
"""The maximum characters of a finding's text, or of a reason."""
MOST_OF_FIELDS = 100_000
"""Characters of JSON that a finding may say besides its own keys, of which a part is kept."""
KEYS = [field.name for field in fields(Finding)]
TEXTS = [key for key in KEYS if key not in ("line", "fields")]


class NoVerdict(Exception):
    """The reason why the plug-in, or its result, gives no verdict."""


def answer_request(request: Mapping[str, Any]) -> dict[str, object]:
    try:
        function = _function(request)
        found = function(request["value"], Context(**request["context"]))
        return {"findings": _findings(found)}
    except BaseException as error:  # noqa: BLE001 - a plug-in may raise anything, SystemExit too
        return {"error": _describe_error(error)}


def answer_call(request: Mapping[str, Any]) -> dict[str, object]:
    function = None
    try:
        function = _function(request)
        given = function(**request["arguments"])
        if inspect.iscoroutine(given):
            import asyncio  # noqa: PLC0415 - half of what starting this process would take

            given = asyncio.run(given)
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        told = storable(text)
        return {"result": told[:MAX_RESULT], "left_out": max(0, len(told) - MAX_RESULT)}
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything, SystemExit too
        return {"error" if function is None else "raised": _describe_error(error)}


def _function(request: Mapping[str, Any]) -> Any:
    if request["folder"] is not None:
        sys.path.insert(0, request["folder"])
    name = request["python"]
    if ":" in name:
        module, _, attribute = name.partition(":")
        function = getattr(import_module(module), attribute)
    else:
        from importlib.metadata import entry_points  # noqa: PLC0415 - a fifth of the start

        offered = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if name not in offered:
            raise NoVerdict(f"no installed package offers it in the group {ENTRY_POINTS}")
        function = offered[name].load()
    if not callable(function):
        raise NoVerdict(f"it is not a function, but {_kind(function)}")
    return function


def _findings(found: object) -> list[dict[str, object]]:
    """Of many findings, or of endlessly many, the first ones."""
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise NoVerdict(f"it returned {_kind(found)}, and no list of findings")
    return [_finding(item, number) for number, item in enumerate(islice(found, MAX_FINDINGS), 1)]


def _finding(item: object, number: int) -> dict[str, object]:
    if isinstance(item, str):
        item = Finding(item)
    finding = asdict(item) if isinstance(item, Finding) else item
    if not isinstance(finding, Mapping):
        raise NoVerdict(f"finding {number} is {_kind(item)}, and no text, mapping or Finding")
    for key in finding:
        if key not in KEYS:
            known = ", ".join(KEYS)
            raise NoVerdict(f"finding {number} has an unknown key {key!r}; known: {known}")
    made = {key: _text(finding.get(key), key, number) for key in TEXTS}
    if not made["message"]:
        raise NoVerdict(f"finding {number} has no message")
    fields = _fields(finding.get("fields"), number)
    return {**made, "line": _line(finding.get("line"), number), "fields": fields}


def _fields(value: object, number: int) -> object:
    if not isinstance(value, Mapping | None):
        raise NoVerdict(f"`fields` of finding {number} is {_kind(value)}, and no mapping")
    try:
        text = json.dumps({str(k): v for k, v in (value or {}).items()}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise NoVerdict(f"`fields` of finding {number} is not JSON data: {error}") from error
    if len(text) > MOST_OF_FIELDS:
        raise NoVerdict(
            f"`fields` of finding {number} is longer than {MOST_OF_FIELDS:,} characters"
        )
    return json.loads(text)


def _text(value: object, key: str, number: int) -> str:
    if value is not None and not isinstance(value, str):
        raise NoVerdict(f"`{key}` of finding {number} is {_kind(value)}, and no text")
    return shorten(_printable(value or "").strip(), MAX_CHARS)


def _printable(text: str) -> str:
    return storable(printable(text))


def _line(value: object, number: int) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise NoVerdict(f"`line` of finding {number} is {_kind(value)}, and no number of a line")


def _kind(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"


def _describe_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<")]
    message = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        message = f"{type(error).__name__}: {error}"
    elif isinstance(error, NoVerdict):
        message = str(error)
    elif own:
        message += f" ({Path(own[-1].filename).name}:{own[-1].lineno})"
    return _printable(message)[:MAX_CHARS]


def main() -> None:
    # What the plug-in prints goes to stderr: no print can be taken for the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    CALL.set(os.environ.get(CALL_VARIABLE, ""))
    answer = answer_call(request) if "arguments" in request else answer_request(request)
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    for printed in (sys.stdout, sys.stderr):
        with suppress(Exception):
            printed.flush()
    # A thread that the plug-in left behind would keep the process waiting for it.
    os._exit(0)


if __name__ == "__main__":
    main()
