"""Guard text -> tree, with every construct that the language does not have refused by name."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable

from loopkit.language.guard.tokens import GuardError, Token, no_arithmetic, refusal, tokenize
from loopkit.language.guard.tree import Constant, Guard, end_of, names_in, set_place

MAX_DEPTH = 30
"""How deep parentheses and `not` may be nested in one guard."""


def parse(text: str) -> Guard:
    """Return the guard that `text` spells; raise GuardError at the first word that is wrong."""
    tree = _Parser(text).whole()
    return Guard(text, tree, names_in(tree))


_VALUES: dict[str, bool | None] = {"true": True, "false": False, "none": None}
_KEYWORDS = frozenset({"and", "or", "not", "in", *_VALUES})
_INSTEAD = {
    "True": "true",
    "TRUE": "true",
    "False": "false",
    "FALSE": "false",
    "None": "none",
    "null": "none",
    "NULL": "none",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "IN": "in",
    "is": "==",
}
_NO_CONSTRUCT = {
    "if": "write one transition for each case",
    "else": "write one transition for each case",
    "for": "use a validator with `require:` and `each:`",
}
KEYWORDS = _KEYWORDS | set(_INSTEAD) | set(_NO_CONSTRUCT)
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
        if self._is_at_end():
            raise refusal(0, len(self._text), "the guard is empty", "write `true`, or no guard")
        tree = self._alternatives()
        if not self._is_at_end():
            raise self._token_error()
        return tree

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    @property
    def _previous(self) -> Token:
        return self._tokens[self._at - 1]

    def _is_at_end(self) -> bool:
        return self._next.kind == "end"

    def _take(self, word: str) -> bool:
        """Step over the next token if it is this keyword or mark."""
        found = self._next.kind in ("name", "mark") and self._next.text == word
        self._at += found
        return found

    def _alternatives(self) -> ast.expr:
        return self._chain("or", ast.Or(), self._conditions)

    def _conditions(self) -> ast.expr:
        return self._chain("and", ast.And(), self._condition)

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
            raise self._chain_error(start, right, sign)
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

    def _chain_error(self, start: int, middle: ast.expr, sign: Token) -> GuardError:
        shown = self._text[middle.col_offset : end_of(middle)]
        first = self._text[start : end_of(middle)]
        remedy = f"write `{first} and {shown} {sign.text} …`"
        return refusal(sign.start, sign.end, "comparisons cannot be chained", remedy)

    def _operand(self) -> ast.expr:
        token = self._next
        if token.kind == "name" and token.text not in _KEYWORDS - set(_VALUES):
            return self._name_or_value(token)
        if token.kind in ("text", "number") or token.text == "-":
            return self._constant()
        if self._take("("):
            return self._parentheses(token)
        raise self._operand_error(token)

    def _name_or_value(self, token: Token) -> ast.expr:
        if token.text in _INSTEAD:
            raise self._word_error(token)
        if token.text in _NO_CONSTRUCT:
            raise self._token_error()
        if token.text in _VALUES:
            return self._constant()
        self._at += 1
        self._refuse_after_name(token)
        return set_place(ast.Name(token.text, ast.Load()), token.start, token.end)

    def _refuse_after_name(self, token: Token) -> None:
        after = self._next
        if after.text == "(" and after.kind == "mark":
            remedy = f"write `{token.text} in […]`" if token.text == "in" else "compare its result"
            raise refusal(token.start, after.end, "guards call no functions", remedy)
        if after.text == "[" and after.kind == "mark":
            remedy = "read a field by its name: `plan.goal`"
            raise refusal(after.start, after.end, "guards have no subscripts", remedy)
        if after.kind == "text" and after.start == token.end:
            shown = f"a text has no prefix `{token.text}`"
            raise refusal(token.start, token.end, shown, f"write {after.text}")

    def _constant(self) -> ast.Constant:
        token = self._next
        if self._take("-"):
            return self._negative(token)
        if token.kind not in ("text", "number") and token.text not in _VALUES:
            raise self._operand_error(token)
        self._at += 1
        return set_place(ast.Constant(_value(token)), token.start, token.end)

    def _negative(self, sign: Token) -> ast.Constant:
        number = self._next
        if number.kind != "number":
            raise no_arithmetic(sign.start, sign.end)
        self._at += 1
        return set_place(ast.Constant(-_number(number)), sign.start, number.end)

    def _parentheses(self, opening: Token) -> ast.expr:
        inner = self._descend(self._alternatives)
        if self._next.text == "," and self._next.kind == "mark":
            raise refusal(opening.start, self._next.end, "this is not a list", "write `[…]`")
        if not self._take(")"):
            raise self._bracket_error(opening, ")")
        return inner

    def _collection(self) -> ast.expr:
        """Parse the operand after `in`: a list of values, or the name of a list."""
        opening = self._next
        if self._take("["):
            return self._list(opening)
        if opening.kind == "name" and opening.text not in _KEYWORDS:
            return self._operand()
        remedy = 'write the values in brackets: `in ["a", "b"]`'
        raise refusal(opening.start, opening.end, "`in` needs a list after it", remedy)

    def _list(self, opening: Token) -> ast.List:
        items: list[ast.expr] = []
        while not self._take("]"):
            if items and not self._take(","):
                raise self._bracket_error(opening, "]")
            if not self._take("]"):
                items.append(self._item())
                continue
            break
        return set_place(ast.List(items, ast.Load()), opening.start, self._previous.end)

    def _item(self) -> ast.Constant:
        token = self._next
        if token.kind == "name" and token.text not in _KEYWORDS and token.text not in _INSTEAD:
            remedy = f'a text needs quotes: "{token.text}"'
            raise refusal(token.start, token.end, "a list holds values, not names", remedy)
        if token.text in _INSTEAD and token.kind == "name":
            raise self._word_error(token)
        return self._constant()

    def _bracket_error(self, opening: Token, closing: str) -> GuardError:
        if not self._is_at_end():
            return self._token_error()
        message = f"this `{opening.text}` is never closed"
        return refusal(opening.start, opening.end, message, f"add `{closing}`")

    def _word_error(self, token: Token) -> GuardError:
        remedy = f"write `{_INSTEAD[token.text]}`"
        following = self._tokens[self._at + 1 : self._at + 2]
        if token.text == "is" and following and following[0].text == "not":
            remedy = "write `!=`"
        return refusal(token.start, token.end, f"guards have no `{token.text}`", remedy)

    def _operand_error(self, token: Token) -> GuardError:
        if token.kind == "end":
            message = f"a value is missing after `{self._previous.text}`"
            return refusal(self._previous.start, self._previous.end, message, "complete the guard")
        if token.text == "[":
            return refusal(token.start, token.end, "a list is allowed only after `in`", "")
        if token.text == "not":
            message, remedy = "`not` cannot follow a comparison", "put it and its operand in `( )`"
            return refusal(token.start, token.end, message, remedy)
        message = f"expected a name or a value here, not `{token.text}`"
        return refusal(token.start, token.end, message, "put text in quotes")

    def _token_error(self) -> GuardError:
        """Return the error for a token that follows a complete expression or cannot start one."""
        token = self._next
        if token.kind == "name" and token.text in _INSTEAD:
            return self._word_error(token)
        if token.kind == "name" and token.text in _NO_CONSTRUCT:
            remedy = _NO_CONSTRUCT[token.text]
            return refusal(token.start, token.end, f"guards have no `{token.text}`", remedy)
        if token.text == "-":
            return no_arithmetic(token.start, token.end)
        if token.text in ("[", "("):
            remedy = "guards have no calls and no subscripts"
            return refusal(token.start, token.end, f"`{token.text}` is not allowed here", remedy)
        message = f"`{token.text}` is not allowed here"
        remedy = "join conditions with `and` or `or`; put text in quotes"
        return refusal(token.start, token.end, message, remedy)


def _value(token: Token) -> Constant:
    if token.kind == "name":
        return _VALUES[token.text]
    return _number(token) if token.kind == "number" else _text(token)


def _number(token: Token) -> int | float:
    number = int(token.text) if token.text.isdigit() else float(token.text)
    too_large = abs(number) >= 2**63 if isinstance(number, int) else math.isinf(number)
    if too_large:
        raise refusal(token.start, token.end, "the number is too large", "use a smaller one")
    return number


def _text(token: Token) -> str:
    for escape in _ESCAPE.finditer(token.text, 1, len(token.text) - 1):
        if escape[1] not in _ESCAPED:
            start = token.start + escape.start()
            remedy = r"write `\\` for a backslash"
            raise refusal(start, start + 2, f"a text has no `{escape[0]}`", remedy)
    return _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], token.text[1:-1])
