"""The grammar of templates: text -> tree, refusing by name what templates can't do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from jinja2 import TemplateSyntaxError, nodes

from loopkit.document.problems import did_you_mean
from loopkit.language.template.errors import Refusal, TemplateError, error_at
from loopkit.language.template.filters import FILTERS, TESTS
from loopkit.language.template.sandbox import SANDBOX

MAX_LENGTH = 100_000
"""Characters that a template may have."""
MAX_PARTS = 20_000
MAX_DEPTH = 50
# Python, to which Jinja compiles, has a limit of 20 for loops in loops.
MAX_LOOPS = 10

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
    nodes.Assign,
    nodes.AssignBlock,
    nodes.FilterBlock,
    nodes.Name,
    nodes.Const,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.Keyword,
    nodes.Filter,
    nodes.Test,
    nodes.Call,
    nodes.Compare,
    nodes.Operand,
    nodes.CondExpr,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Neg,
    nodes.Pos,
    nodes.Concat,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    # Has no line; the one statement that can stand in it is refused, with its line.
    nodes.Scope,
)
_NAMED = {
    "Include": "include",
    "Import": "import",
    "FromImport": "import",
    "Extends": "extends",
    "Block": "block",
    "Macro": "macro",
    "CallBlock": "call",
    "With": "with",
    "ScopedEvalContextModifier": "autoescape",
    "NSRef": "namespace",
    "Pow": "**",
}
_TAGS = (
    "if", "elif", "else", "endif", "for", "endfor",
    "set", "endset", "filter", "endfilter", "raw", "endraw",
)  # fmt: skip
_HOW = "write `{{ name }}` for a value, `{% if … %}` and `{% for … %}` for blocks"
_BLOCKS = ("if", "for", "set", "filter", "raw")
_TAG = re.compile(r"\{%[-+]?\s*(\w+)([^%]*)")


def tree_of(text: str) -> nodes.Template:
    """Return the tree of the template; raise TemplateError for what is wrong with it."""
    if len(text) > MAX_LENGTH:
        message = f"the template has {len(text):,} characters, at most {MAX_LENGTH:,} are allowed"
        raise TemplateError("template-limit", message, help="move text into an input")
    tree = _parse(text)
    _refuse_foreign(tree, text)
    return tree


def _parse(text: str) -> nodes.Template:
    try:
        return SANDBOX.parse(text)
    except TemplateSyntaxError as error:
        raise _syntax_error(error, text) from error
    except RecursionError as error:
        raise _too_deep(text, 1) from error
    except ValueError as error:  # Python reads no number of thousands of digits
        too_long = Refusal("a number has too many digits", code="template-syntax")
        raise error_at(too_long, text, 1) from error


def _syntax_error(error: TemplateSyntaxError, text: str) -> TemplateError:
    said = error.message or "the template cannot be read"
    if said.startswith("Unexpected end of template"):
        return _missing_end(text, error.lineno)
    char = re.fullmatch(r"(unexpected char '.*') at (\d+)", said, re.DOTALL)
    if char:
        column = int(char[2]) - text.rfind("\n", 0, int(char[2]))
        return TemplateError("template-syntax", char[1], error.lineno, column, 1, _HOW)
    unknown = re.match(r"Encountered unknown tag '(.*?)'", said)
    if unknown:
        return _unknown_tag(unknown[1], text, error.lineno)
    quoted = re.findall(r"'([^']+)'", said)
    first = re.split(r"\.\s|\.$", said)[0]
    message = first[:1].lower() + first[1:]
    words = quoted[-1] if quoted and " " not in quoted[-1] else ""
    return error_at(Refusal(message, _HOW, "template-syntax"), text, error.lineno, words)


def _unknown_tag(tag: str, text: str, line: int) -> TemplateError:
    if tag in _TAGS:
        message, remedy = f"nothing is open that `{tag}` could belong to", "check the tags before"
    else:
        near = "elif" if tag in ("elseif", "elsif") else tag
        message, remedy = f"unknown tag `{tag}`", did_you_mean(near, _TAGS)
    return error_at(Refusal(message, remedy, "template-syntax"), text, line, tag)


def _missing_end(text: str, line: int) -> TemplateError:
    """Return the error for a block that is still open at the end, at the tag that opened it."""
    opened: list[tuple[str, int]] = []
    for tag in _TAG.finditer(text):
        name = tag[1]
        if name in _BLOCKS and not (name == "set" and "=" in tag[2]):
            opened.append((name, text.count("\n", 0, tag.start()) + 1))
        elif name.startswith("end") and opened:
            opened.pop()
    name, line = opened[-1] if opened else ("", line)
    message = f"`{{% {name} %}}` is never closed" if name else "the template ends too early"
    remedy = f"add `{{% end{name} %}}`" if name else "close what is open"
    return error_at(Refusal(message, remedy, "template-syntax"), text, line, name)


def _refuse_foreign(tree: nodes.Template, text: str) -> None:
    for parts, (node, depth, loops) in enumerate(_walk(tree), 1):
        if depth > MAX_DEPTH or loops > MAX_LOOPS:
            raise _too_deep(text, node.lineno)
        if parts > MAX_PARTS:
            much = Refusal(f"the template has more than {MAX_PARTS:,} parts", "split it")
            raise error_at(much, text, node.lineno)
        wrong = _foreign(node)
        if wrong:
            raise error_at(wrong[0], text, node.lineno, wrong[1])


def _walk(tree: nodes.Template) -> Iterator[tuple[nodes.Node, int, int]]:
    """Yield each node, outer ones first, in the text's order, with its depth and loops around it.

    Not recursive: what comes from Jinja's parser may be nested deeper than Python's stack.
    """
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, loops = waiting.pop()
        yield node, depth, loops
        within = loops + isinstance(node, nodes.For)
        inner = [(part, depth + 1, within) for part in node.iter_child_nodes()]
        waiting.extend(reversed(inner))


def _too_deep(text: str, line: int) -> TemplateError:
    message = f"the template is nested more than {MAX_DEPTH} deep, or {MAX_LOOPS} loops deep"
    return error_at(Refusal(message, "split it with `{% set %}`"), text, line)


_Wrong = tuple[Refusal, str]


def _foreign(node: nodes.Node) -> _Wrong | None:
    """Return the mistake in this node alone, and its word."""
    if not isinstance(node, _ALLOWED):
        word = _NAMED.get(type(node).__name__, type(node).__name__.lower())
        remedy = "templates have values, filters, `if`, `for`, `set` and `filter`"
        return _forbidden(f"templates have no `{word}`", remedy, word)
    if isinstance(node, nodes.Call):
        return _foreign_call(node)
    if isinstance(node, nodes.Filter | nodes.Test):
        return _foreign_filter(node)
    return _foreign_detail(node)


def _foreign_detail(node: nodes.Node) -> _Wrong | None:
    match node:
        case nodes.Const(value=float() as value) if math.isinf(value):
            return _forbidden("a number is too large", "write a smaller one", "")
        case nodes.For(recursive=True):
            message = "templates have no recursive loops"
            return _forbidden(message, "write a loop in a loop", "recursive")
        case nodes.Name(name="loop", ctx="store"):
            return _forbidden("`loop` cannot be set", "choose another name", "loop")
        case _:
            return None


def _forbidden(message: str, remedy: str, word: str) -> _Wrong:
    return Refusal(message, remedy, "template-forbidden"), word


def _foreign_call(node: nodes.Call) -> _Wrong | None:
    called = node.node
    if isinstance(called, nodes.Name) and called.name == "range":
        plain = not (node.kwargs or node.dyn_args or node.dyn_kwargs)
        if plain and 1 <= len(node.args) <= 3:
            return None
        return _forbidden("`range` takes one to three numbers", "write `range(3)`", "range")
    name = called.attr if isinstance(called, nodes.Getattr) else getattr(called, "name", "")
    remedy = f"write `| {name}`" if name in FILTERS else "only `range(n)` can be called"
    return _forbidden("templates call no functions and no methods", remedy, str(name))


def _foreign_filter(node: nodes.Filter | nodes.Test) -> _Wrong | None:
    kind, known = ("filter", FILTERS) if isinstance(node, nodes.Filter) else ("test", TESTS)
    if node.name not in known:
        remedy = did_you_mean(node.name, sorted(known))
        message = f"unknown {kind} `{node.name}`"
        return Refusal(message, remedy, f"unknown-{kind}"), node.name
    options = [pair.key for pair in node.kwargs if isinstance(pair, nodes.Keyword)]
    if node.dyn_args or node.dyn_kwargs or len(set(options)) < len(options):
        message = f"the arguments of `{node.name}` must be written out, each once"
        return _forbidden(message, "write them without `*`", node.name)
    return None
