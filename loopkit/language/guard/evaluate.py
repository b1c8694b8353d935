"""A checked guard -> a function of the facts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from loopkit.language.guard.tree import Guard, at_place_of, rebuild, set_place


def compile_guard(guard: Guard) -> Callable[[Mapping[str, object]], bool]:
    """Return the guard as a function, about 0.2 µs a call.

    It takes a flat mapping with a value for each of `guard.names`, dotted ones whole. For values
    of the types that the guard was checked with it cannot fail.
    """
    parameter = ast.arg("facts", lineno=1, col_offset=0)
    facts = ast.arguments(
        posonlyargs=[], args=[parameter], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function = set_place(ast.Lambda(facts, rebuild(guard.tree, _fact)), 0, len(guard.text))
    # The tree can hold nothing but comparisons of facts and values: see tree.py.
    holds: Callable[[Mapping[str, object]], bool] = eval(  # noqa: S307
        compile(ast.Expression(function), "<guard>", "eval"), {"__builtins__": {}}
    )
    return holds


def _fact(name: ast.Name) -> ast.expr:
    facts = at_place_of(name, ast.Name("facts", ast.Load()))
    key = at_place_of(name, ast.Constant(name.id))
    return at_place_of(name, ast.Subscript(facts, key, ast.Load()))
