"""Parts of guards that replace the inputs that they alone read: each is one boolean input."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from loopkit.language.guard import Guard
from loopkit.language.guard.tree import at_place_of, names_in
from loopkit.proof.outcomes.row_regions import Row
from loopkit.values import Value, field


class InputParts(Value, frozen=True):
    """The structure of guards, and their parts that are one boolean input; all by their text."""

    made_of: Mapping[str, ast.BoolOp | ast.UnaryOp] = field(default_factory=dict)
    truths: Mapping[str, Mapping[bool, Row]] = field(default_factory=dict)
    """Whether a part can hold, and whether it can fail, each with inputs for which it does."""

    def substitute(self, guard: Guard) -> Guard:
        """A guard that reads each part as one input."""
        if not self.truths:
            return guard
        tree = self._substitute(guard.tree)
        return Guard(guard.text, tree, names_in(tree))

    def _substitute(self, tree: ast.expr) -> ast.expr:
        text = ast.unparse(tree)
        if text in self.truths:
            return at_place_of(tree, ast.Name(text, ast.Load()))
        match self.made_of.get(text):
            case ast.BoolOp(op=op, values=values):
                return at_place_of(
                    tree, ast.BoolOp(op, [self._substitute(part) for part in values])
                )
            case ast.UnaryOp(op=op, operand=operand):
                return at_place_of(tree, ast.UnaryOp(op, self._substitute(operand)))
            case None:
                return tree
