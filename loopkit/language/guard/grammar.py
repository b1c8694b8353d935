"""The grammar of guards: text → tree, with every construct that the language lacks refused by name.

The tree is made of `ast` nodes, so that Python compiles it, but only the nodes of the language
can be in it: BoolOp, Not, Compare with one operator, Name, Constant, List of Constants. A dotted
name is one Name with the dots in its `id`. `col_offset` counts characters. A guard that uses named
guards is expanded to one that uses none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Literal, TypeVar, cast

from loopkit.values import Value

MAX_DEPTH = 30
"""How deep parentheses and `not` may be nested in one guard."""


def parse(text: str) -> Guard:
    """The guard that `text` spells; raises GuardError at the first word that is wrong."""
    tree = _Parser(text).whole()
    return Guard(text, tree, names_in(tree))


_VALUES: dict[str, bool | None] = {"true": True, "false": False, "none": None}
_KEYWORDS = frozenset({"and", "or", "not", "in", *_VALUES})
_WORDS = {"true": "True TRUE", "false": "False FALSE", "none": "None null NULL", "==": "is"} | {
    word: word.upper() for word in ("and", "or", "not", "in")
}
_INSTEAD = {other: f"write `{word}`" for word, others in _WORDS.items() for other in others.split()}
_INSTEAD |= dict.fromkeys(("if", "else"), "write one transition for each case")
_INSTEAD["for"] = "use a validator with `require:` and `each:`"
KEYWORDS = _KEYWORDS | set(_INSTEAD)
"""Words that can be no name in a guard."""

_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "in": ast.In,
}
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t"}


class _Parser:
    """Recursive descent over the tokens; each method parses the construct that it is named for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> ast.expr:
        if self._next.kind == "end":
            raise refusal(0, len(self._text), "the guard is empty", "write `true`, or no guard")
        tree, last = self._alternatives(), self._next
        if last.kind != "end":
            raise self._unexpected()
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _previous(self) -> Token:
        return self._tokens[self._at - 1]

    def _take(self, word: str) -> bool:
        """Step over the next token if it is this keyword or mark."""
        found = self._next.kind in ("name", "mark") and self._next.text == word
        self._at += found
        return found

    def _alternatives(self) -> ast.expr:
        return self._chain("or", ast.Or(), lambda: self._chain("and", ast.And(), self._condition))

    def _chain(self, word: str, op: ast.boolop, part: Callable[[], ast.expr]) -> ast.expr:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return set_place(ast.BoolOp(op, parts), parts[0].col_offset, end_of(parts[-1]))

    def _condition(self) -> ast.expr:
        if not self._take("not"):
            return self._comparison()
        start = self._previous.start
        operand = self._descend(self._condition)
        return set_place(ast.UnaryOp(ast.Not(), operand), start, end_of(operand))

    def _descend(self, part: Callable[[], ast.expr]) -> ast.expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            token = self._previous
            message = f"parentheses and `not` are nested more than {MAX_DEPTH} deep"
            raise refusal(token.start, token.end, message, "name the inner parts under `guards:`")
        tree = part()
        self._depth -= 1
        return tree

    def _comparison(self) -> ast.expr:
        left = self._operand()
        op = self._comparator()
        if op is None:
            return left
        membership = isinstance(op, (ast.In, ast.NotIn))
        right = self._collection() if membership else self._operand()
        start, end = left.col_offset, end_of(right)
        sign = self._next
        if self._comparator() is not None:
            shown = self._text[right.col_offset : end]
            first = self._text[start:end]
            remedy = f"write `{first} and {shown} {sign.text} …`"
            raise refusal(sign.start, sign.end, "comparisons cannot be chained", remedy)
        return set_place(ast.Compare(left, [op], [right]), start, end)

    def _comparator(self) -> ast.cmpop | None:
        for word, op in _COMPARISONS.items():
            if self._take(word):
                return op()
        following = self._tokens[self._at + 1 : self._at + 2]
        if following and following[0].text == "in" and self._take("not"):
            self._at += 1
            return ast.NotIn()
        return None

    def _operand(self) -> ast.expr:
        token = self._next
        if token.kind == "name" and token.text not in _KEYWORDS - set(_VALUES):
            return self._name_or_value(token)
        if token.kind in ("text", "number") or token.text == "-":
            return self._constant()
        if self._take("("):
            inner = self._descend(self._alternatives)
            if not self._take(")"):
                raise self._unexpected(")")
            return inner
        raise self._unexpected(as_operand=True)

    def _name_or_value(self, token: Token) -> ast.expr:
        if token.text in _INSTEAD:
            raise self._unexpected()
        if token.text in _VALUES:
            return self._constant()
        self._at += 1
        after = self._next
        if after.text == "(" and after.kind == "mark":
            raise computed(token.start, after.end, "guards call no functions")
        if after.text == "[" and after.kind == "mark":
            remedy = "read a field by its name: `plan.goal`"
            raise refusal(after.start, after.end, "guards have no subscripts", remedy)
        return set_place(ast.Name(token.text, ast.Load()), token.start, token.end)

    def _constant(self) -> ast.Constant:
        token = self._next
        if self._take("-"):
            number = self._next
            if number.kind != "number":
                raise computed(token.start, token.end)
            self._at += 1
            return set_place(ast.Constant(-_number(number)), token.start, number.end)
        if token.kind not in ("text", "number") and token.text not in _VALUES:
            raise self._unexpected(as_operand=True)
        self._at += 1
        return set_place(ast.Constant(_value(token)), token.start, token.end)

    def _collection(self) -> ast.expr:
        """Parse the operand after `in`: a list of values, or the name of a list."""
        opening = self._next
        if self._take("["):
            return self._list(opening.start)
        if opening.kind == "name" and opening.text not in _KEYWORDS:
            return self._operand()
        remedy = 'write the values in brackets: `in ["a", "b"]`'
        raise refusal(opening.start, opening.end, "`in` needs a list after it", remedy)

    def _list(self, start: int) -> ast.List:
        items: list[ast.expr] = []
        while not self._take("]"):
            if items and not self._take(","):
                raise self._unexpected("]")
            if self._take("]"):
                break
            token = self._next
            if token.kind == "name" and token.text not in KEYWORDS:
                remedy = f'a text needs quotes: "{token.text}"'
                raise refusal(token.start, token.end, "a list holds values, not names", remedy)
            items.append(self._constant())
        return set_place(ast.List(items, ast.Load()), start, self._previous.end)

    def _unexpected(self, closing: str = "", *, as_operand: bool = False) -> GuardError:
        """The error for the next token, which cannot stand where it does."""
        token, after = self._next, self._tokens[self._at + 1 : self._at + 2]
        start, end, text = token.start, token.end, token.text
        if token.kind == "end":
            missing = f"`{closing}`" if closing else "a value"
            message = f"{missing} is missing after `{self._previous.text}`"
            return refusal(self._previous.start, self._previous.end, message, "complete the guard")
        if token.kind == "name" and text in _INSTEAD:
            negated = text == "is" and bool(after) and after[0].text == "not"
            remedy = "write `!=`" if negated else _INSTEAD[text]
            return refusal(start, end, f"guards have no `{text}`", remedy)
        if text == "-":
            return computed(start, end)
        message = f"`{text}` is not allowed here"
        remedy = "join conditions with `and` or `or`; put text in quotes"
        if as_operand:
            message = f"expected a name or a value here, not `{text}`"
            remedy = "put text in quotes, `not` and its operand in `( )`, and a list after `in`"
            if text == "[":
                return computed(start, end, message, remedy)
        return refusal(start, end, message, remedy)


def _value(token: Token) -> Constant:
    if token.kind == "name":
        return _VALUES[token.text]
    return _number(token) if token.kind == "number" else _text(token)


def _number(token: Token) -> int | float:
    number = int(token.text) if token.text.isdigit() else float(token.text)
    if number >= 2**63:
        raise refusal(token.start, token.end, "the number is too large", "use a smaller one")
    return number


def _text(token: Token) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), token.text[1:-1])


Constant = str | int | float | bool | None
_Expr = TypeVar("_Expr", bound=ast.expr)


class Guard(Value, frozen=True, eq=False):
    """A parsed guard. Two guards are equal only where they are the same one."""

    text: str
    tree: ast.expr
    """Shared, never changed in place."""
    names: frozenset[str]
    """The dotted names that it reads: {"valid", "input.max_revisions"}."""


def nodes_of_names(tree: ast.expr) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def names_in(tree: ast.expr) -> frozenset[str]:
    return frozenset(node.id for node in nodes_of_names(tree))


def conditions(node: ast.expr) -> Iterator[ast.expr]:
    """The smallest conditions of a guard, in their order."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                yield from conditions(part)
        case ast.UnaryOp(operand=part):
            yield from conditions(part)
        case _:
            yield node


def constants(condition: ast.expr) -> Iterator[object]:
    for node in ast.walk(condition):
        if isinstance(node, ast.Constant):
            yield node.value


def rebuild(
    node: ast.expr, stand_in: Callable[[ast.Name], ast.expr], place: ast.expr | None = None
) -> ast.expr:
    """A new tree in which `stand_in` replaces each name; the old tree is unchanged.

    Every node but those that stand in gets the place of `place`, where given, else its old one.
    """
    match node:
        case ast.Name():
            return stand_in(node)
        case ast.BoolOp(op=op, values=values):
            new: ast.expr = ast.BoolOp(op, [rebuild(value, stand_in, place) for value in values])
        case ast.UnaryOp(op=op, operand=operand):
            new = ast.UnaryOp(op, rebuild(operand, stand_in, place))
        case ast.Compare(left=left, ops=ops, comparators=[right]):
            sides = [rebuild(side, stand_in, place) for side in (left, right)]
            new = ast.Compare(sides[0], ops, sides[1:])
        case ast.List(elts=items):
            new = ast.List([rebuild(item, stand_in, place) for item in items], ast.Load())
        case ast.Constant(value=value):
            new = ast.Constant(value)
        case _:
            raise AssertionError(f"a guard has no {type(node).__name__}")
    return at_place_of(place or node, new)


def at_place_of(place: ast.expr, node: _Expr) -> _Expr:
    return set_place(node, place.col_offset, end_of(place))


def set_place(node: _Expr, start: int, end: int) -> _Expr:
    """Note its place in the text on a node that is not shared yet, and return it."""
    node.lineno = node.end_lineno = 1
    node.col_offset, node.end_col_offset = start, end
    return node


def end_of(node: ast.expr) -> int:
    return node.end_col_offset or node.col_offset


def problem_at(node: ast.expr, code: str, message: str, remedy: str) -> GuardProblem:
    length = max(1, end_of(node) - node.col_offset)
    return GuardProblem(node.col_offset + 1, length, code, message, remedy)


MAX_LENGTH = 1_000
"""Characters that a guard may have."""

Kind = Literal["name", "number", "text", "mark", "end"]


class GuardProblem(Value, frozen=True):
    """A mistake in a guard: the message, its characters in the text, and the remedy."""

    column: int
    """Where it starts in the guard's text, in characters from 1; line ends count as one."""
    length: int
    """How many characters are wrong, at least 1."""
    code: str
    message: str
    help: str = ""
    is_computed: bool = False
    """It wants what only code computes, such as a call, a sum or a list."""


class GuardError(Exception):
    """The text is not a guard; `problem` has the place and the reason."""

    def __init__(self, problem: GuardProblem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem.message


class Token(Value, frozen=True):
    kind: Kind
    text: str
    start: int
    """Index of its first character in the guard's text."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def refusal(start: int, end: int, message: str, remedy: str = "") -> GuardError:
    """The error for the characters from index `start` up to `end`."""
    return GuardError(GuardProblem(start + 1, max(1, end - start), "guard-syntax", message, remedy))


def tokenize(text: str) -> list[Token]:
    """The guard's words, the last one of kind `end`; raises GuardError for a foreign one."""
    if len(text) > MAX_LENGTH:
        raise refusal(
            MAX_LENGTH,
            len(text),
            f"the guard has {len(text)} characters, at most {MAX_LENGTH:,} are allowed",
            "name its parts under `guards:` and use the names",
        )
    return [*_words(text), Token("end", "", len(text.rstrip()))]


_SLIP = re.compile(
    r"===|!==|&&|\|\||<>|=>|=<|:=|=(?!=)|!(?!=)|&|\||\{\{|\*\*|//|[+*/%^~?;{}:]|[“”„‘’]"
)
_WORD = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[^\W\d][\w-]*)*)
      | (?P<mark>==|!=|<=|>=|[<>()\[\],-])""",
    re.VERBOSE,
)

_OPERATORS_INSTEAD = {
    "===": "==",
    "!==": "!=",
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
    "=": "==",
    ":=": "==",
    "!": "not",
} | dict.fromkeys("“”„‘’", '"')
_FILTER = re.compile(r"\| *(?:count|first|int|last|length|lower|max|min|sum|trim|upper)\b")
_NO_ARITHMETIC = ("**", "//", "+", "*", "/", "%", "^", "~")


def _words(text: str) -> Iterator[Token]:
    at = 0
    while rest := text[at:].lstrip():
        at = len(text) - len(rest)
        _refuse_slip(text, at)
        word = _WORD.match(text, at)
        if word is None:
            raise _foreign(text, at)
        yield Token(cast("Kind", word.lastgroup), word.group(), at)
        at = word.end()


def _refuse_slip(text: str, at: int) -> None:
    slip = _SLIP.match(text, at)
    if slip is None:
        return
    mark = slip.group()
    if mark == "|" and _FILTER.match(text, at):
        raise computed(at, slip.end(), "guards have no filters")
    if mark in _OPERATORS_INSTEAD:
        remedy = f"write `{_OPERATORS_INSTEAD[mark]}`"
    elif mark in _NO_ARITHMETIC:
        raise computed(at, slip.end())
    elif mark == "{{":
        remedy = "a guard is not a template: write the name without the braces"
    else:
        remedy = "a guard is made of names, values, comparisons, `and`, `or` and `not`"
    raise refusal(at, slip.end(), f"guards have no `{mark}`", remedy)


ELSEWHERE = "have it computed where the work is done, and compare the result"


def computed(
    start: int, end: int, message: str = "guards do no arithmetic", remedy: str = ELSEWHERE
) -> GuardError:
    problem = refusal(start, end, message, remedy).problem
    return GuardError(problem.replace(is_computed=True))


def _foreign(text: str, at: int) -> GuardError:
    char = text[at]
    if text[at - 1 : at + 1] == "].":
        return computed(at, at + 1, "guards read no items of lists")
    if char in "\"'":
        return refusal(at, len(text), "this quote is never closed", f"end the text with {char}")
    run = re.match(r"[\w.]+", text[at:])
    shown = run[0] if run else char if char.isprintable() else f"U+{ord(char):04X}"
    remedy = "put text in quotes; write a number like 0.5 or 2e6, and a name like `input.size`"
    return refusal(at, at + len(run[0] if run else char), f"guards have no `{shown}`", remedy)


MAX_EXPANDED_DEPTH = 100
"""The maximum depth of nested parts in an expanded guard."""
MAX_NAMES = 2_000
"""How many names an expanded guard may have, each counted wherever it stands."""
_UNNAME = "write one of them without naming another"


def readable(texts: Mapping[str, str]) -> dict[str, Guard]:
    """The guards that can be parsed; the checks report what is wrong with the others."""
    named: dict[str, Guard] = {}
    for name, text in texts.items():
        with suppress(GuardError):
            named[name] = parse(text)
    return named


def expand(guard: Guard, named: Mapping[str, Guard]) -> Guard:
    """The guard with each name that `named` has replaced by what it stands for.

    What is put in takes the place of the name that it replaces, so that problems found in it are
    reported in this guard's text. Raises GuardError where named guards use each other in a circle,
    or make the guard larger than 2,000 names or than 100 levels.
    """
    if guard.names.isdisjoint(named):
        return guard
    room = iter(range(MAX_NAMES))

    def inline(tree: ast.expr, place: ast.expr | None, trail: tuple[str, ...]) -> ast.expr:
        def stand_in(name: ast.Name) -> ast.expr:
            at = place or name
            if next(room, None) is None:
                message = f"with its named guards the guard has more than {MAX_NAMES:,} names"
                raise _error(guard.tree, message, "use fewer named guards in it")
            if name.id not in named:
                return at_place_of(at, ast.Name(name.id, ast.Load()))
            if name.id in trail:
                circle = " -> ".join([*trail[trail.index(name.id) :], name.id])
                message = f"named guards use each other in a cycle: {circle}"
                raise _error(at, message, _UNNAME)
            return inline(named[name.id].tree, at, (*trail, name.id))

        return rebuild(tree, stand_in, place)

    tree = None
    with suppress(RecursionError):
        tree = inline(guard.tree, None, ())
    if tree is None or _depth(tree) > MAX_EXPANDED_DEPTH:
        message = f"the named guards are nested more than {MAX_EXPANDED_DEPTH} deep"
        raise _error(guard.tree, message, _UNNAME)
    return Guard(guard.text, tree, names_in(tree))


def _depth(tree: ast.expr) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        inner = (part for node in level for part in ast.iter_child_nodes(node))
        level = [part for part in inner if isinstance(part, ast.expr)]
    return depth


def _error(node: ast.expr, message: str, remedy: str) -> GuardError:
    return GuardError(problem_at(node, "named-guard", message, remedy))
