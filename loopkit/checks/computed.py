"""What a guard or a condition wants and only code computes: the rule that says it instead."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection
from contextlib import suppress

from loopkit.language.guard.evaluate import ITEMS
from loopkit.language.guard.grammar import KEYWORDS

_LENGTH = r"(?:len\((?P<of>[\w.]+)\)|(?P<on>[\w.]+)\s*\|\s*(?:length|count)\b)"
_COMPARED = re.compile(rf"{_LENGTH}\s*(?P<sign>[<>]=?|==)\s*(?P<number>\d+)")
_LIMITS = {">": (("min", 1),), ">=": (("min", 0),), "<": (("max", -1),), "<=": (("max", 0),)}
_OF_EACH = re.compile(r"(?P<each>[\w.\[\]]*\[\])\.(?P<require>[\w.]+ *(?:[<>=!]|in |not ).*)")
_WORD = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\.?[A-Za-z_]\w*(?=\s*\())
      | (?P<path>[A-Za-z_]\w*(?:\[\])?(?:\.[A-Za-z_][\w-]*(?:\[\])?(?![\w(]))*)""",
    re.VERBOSE,
)
_CONSTANTS = {"true": "True", "false": "False", "none": "None", "artifact": "data"}


def instead_of_guard(text: str, artifacts: Collection[str]) -> str:
    """The remedy for a guard: a rule of the state that judges what the guard is about."""
    found = _COMPARED.search(text)
    name = (found["of"] or found["on"]) if found else ""
    head, _, field = name.partition(".")
    if found is None or head not in ("input", *artifacts):
        known = "`min_chars`, `min_words`, `contains`, `matches` or `require`"
        remedy = f"let a rule of a `validate` state judge it ({known}), and write `guard: valid`"
        return f"{remedy};\nwhat none of them says, a `python` rule does"
    number = int(found["number"])
    limits = _LIMITS.get(found["sign"], (("min", 0), ("max", 0)))
    rules = ", ".join(f"{{{end}_chars: {number + more}}}" for end, more in limits)
    if field:
        field = name if head == "input" else field
        rules = f'{{require: "{field}.count {found["sign"]} {number}"}}'
    whose = "a `validate` state" if head == "input" else f"the state that validates `{head}`"
    return f"add the rule `{rules}` to `by:` of {whose}, and write `guard: valid`"


def instead_of_condition(text: str, each: str | None) -> str:
    """The remedy for a condition on data: `count`, or a `python` rule with the lines to write."""
    counted = re.sub(_LENGTH, lambda length: f"{length['of'] or length['on']}.count", text)
    if counted != text and not re.search(r"[(\[+*/|-]", counted):
        return f"write `{counted}`"
    if each is None and (one := _OF_EACH.fullmatch(text)):
        return f"write `{{require: '{one['require']}', each: \"{one['each']}\"}}`"
    python = _in_python(text, "data" if each is None else "item")
    found = f'[] if {python} else ["…"]'
    if each is not None:
        found = f'["…" for item in {_path(each, "data")} if not ({python})]'
    told = 'write `python: "rules:check"` instead, and beside the machine file, in `rules.py`:'
    return f"{told}\ndef check(data, context):\n    return {found}"


def _in_python(text: str, own: str) -> str:
    """The condition in Python, as far as it reads so; else dots."""
    variables = re.findall(r"\bfor\s+(\w+)\s+in\b", text)

    def word(found: re.Match[str]) -> str:
        head, _, rest = (path := found["path"] or "").partition(".")
        if path in _CONSTANTS:
            return _CONSTANTS[path]
        if not path or path in KEYWORDS:
            return found[0]
        if head in ("item", "index", *variables):
            return _path(rest, head)
        return _path(rest, "context.input") if head == "input" else _path(path, own)

    written = _WORD.sub(word, text)
    with suppress(SyntaxError):
        nodes = [*ast.walk(ast.parse(written, mode="eval"))]
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        fields = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        is_known = all(isinstance(name, ast.Name) and hasattr(builtins, name.id) for name in called)
        if is_known and fields <= {"input"} and not any(isinstance(n, ast.BitOr) for n in nodes):
            return written
    return "…"


def _path(path: str, own: str) -> str:
    """A path as Python reads it, such as `[each["b"] for each in data["a"]]` for `a[].b`."""
    if path.endswith(".count"):
        return f"len({_path(path.removesuffix('.count'), own)})"
    *holders, last = (
        "".join(f'["{step}"]' for step in part.split(".") if step) for part in path.split(ITEMS)
    )
    if not holders or (len(holders) == 1 and not last):
        return own + "".join([*holders, last])
    loops = (f"for each in {'each' if n else own}{steps}" for n, steps in enumerate(holders))
    return f"[each{last} {' '.join(loops)}]"
