"""Folding: a part of a guard that alone reads some inputs becomes one boolean input."""

from __future__ import annotations

import ast
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from heapq import heappop, heappush

from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import truth
from loopkit.language.guard.tree import at_place_of, names_in
from loopkit.machine.components import strong_components
from loopkit.proof.bounds.inputs import Inputs
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.splitting import Conditions
from loopkit.proof.outcomes import Analysis, Row
from loopkit.proof.outcomes.input_parts import InputParts

MOST_LOOKED_AT = 1_000
"""The most steps to find the truths of a part; a part that is still open then is not folded."""
Whole = ast.BoolOp | ast.UnaryOp


class _Open(Exception):
    """The truths of a part are not soon known."""


def fold_inputs(analysis: Analysis, given: Mapping[str, object]) -> Analysis:
    """The machine with folded inputs; `given` are the known values, by dotted name."""
    every = [edge.guard for edge in analysis.graph.edges]
    every += [rule.guard for rules in analysis.rules_at.values() for rule in rules]
    whole = (analysis.guards.whole(text) for text in dict.fromkeys(every) if text is not None)
    guards = [guard for guard in whole if guard is not None]
    inputs = Inputs(analysis, given, guards)
    free = inputs.named.keys() - {*inputs.caps.values()}
    if all(len(free & guard.names) < 2 for guard in guards):
        return analysis
    parts = _Parts(guards, free)
    truths = dict[str, Mapping[bool, Row]]()
    for tree in parts.alone():
        with suppress(_Open):
            truths[ast.unparse(tree)] = _Truths().of(tree, inputs.named)
    return analysis.replace(parts=InputParts(parts.made_of, truths))


class _Parts:
    """Guards split into parts, the longest first, until no parts share an input."""

    def __init__(self, guards: Iterable[Guard], free: Set[str]) -> None:
        self._free = free
        self._trees: dict[str, ast.expr] = {}
        self._waiting: list[tuple[int, str]] = []
        self._readers = Counter[str]()
        self.made_of: dict[str, Whole] = {}
        for guard in guards:
            self._add(guard.tree)

    def alone(self) -> Iterator[ast.expr]:
        """The parts that alone read some inputs."""
        while self._waiting:
            _, text = heappop(self._waiting)
            tree = self._trees[text]
            if self._is_alone(tree):
                if len(names_in(tree)) > 1:
                    yield tree
            elif isinstance(tree, Whole):
                self.made_of[text] = whole = self._regroup(tree)
                self._readers.subtract(names_in(tree))
                for part in [whole.operand] if isinstance(whole, ast.UnaryOp) else whole.values:
                    self._add(part)

    def _add(self, tree: ast.expr) -> None:
        text = ast.unparse(tree)
        if text not in self._trees:
            self._trees[text] = tree
            heappush(self._waiting, (-len(text), text))
            self._readers.update(names_in(tree))

    def _is_alone(self, tree: ast.expr) -> bool:
        names = names_in(tree)
        return names <= self._free and all(self._readers[name] == 1 for name in names)

    def _regroup(self, tree: Whole) -> Whole:
        """The tree with the parts that share no input with others joined into one."""
        values = [] if isinstance(tree, ast.UnaryOp) else tree.values
        alone = [part for part in values if self._is_alone(part)]
        if isinstance(tree, ast.UnaryOp) or len(alone) < 2:
            return tree
        together = at_place_of(tree, ast.BoolOp(tree.op, alone))
        rest = [part for part in values if part not in alone]
        return at_place_of(tree, ast.BoolOp(tree.op, [together, *rest]))


class _Truths:
    """Whether a part can hold, and whether it can fail."""

    def __init__(self) -> None:
        self._left = MOST_LOOKED_AT

    def of(self, tree: ast.expr, regions: Mapping[str, Region]) -> Mapping[bool, Row]:
        """The possible truths of a part, each with inputs from their regions that lead to it."""
        names = names_in(tree)
        open_ = {name: regions[name] for name in sorted(names) if len(regions[name]) > 1}
        match tree:
            case ast.UnaryOp(operand=part):
                return {not held: row for held, row in self.of(part, regions).items()}
            case ast.BoolOp(op=op, values=values) if len(groups := _groups(values, open_)) > 1:
                each = [self.of(ast.BoolOp(op, group), regions) for group in groups]
                return _together(each, decisive=isinstance(op, ast.Or))
            case ast.BoolOp(values=[part]):
                return self.of(part, regions)
        self._left -= 1
        stand_ins = {name: regions[name].stand_in for name in sorted(names)}
        known = {name: stand_ins[name] for name in names - open_.keys()}
        split = Conditions(known, open_).next_split(Guard("", tree, names))
        if split is not None:
            return self._of_each(tree, ({**regions, split[0]: part} for part in split[1]))
        held = truth(tree, stand_ins)
        if held is None or self._left < 0:
            raise _Open
        return {held: stand_ins}

    def _of_each(self, tree: ast.expr, parts: Iterable[Mapping[str, Region]]) -> Mapping[bool, Row]:
        found: dict[bool, Row] = {}
        for regions in parts:
            if len(found) < 2:
                found = {**self.of(tree, regions), **found}
        return found


def _groups(values: Sequence[ast.expr], open_: Collection[str]) -> list[list[ast.expr]]:
    """The parts in groups that share open inputs."""
    leads: dict[int | str, set[int | str]] = {name: set() for name in open_}
    for index, value in enumerate(values):
        leads[index] = {*names_in(value) & {*open_}}
        for name in leads[index]:
            leads[name].add(index)
    found = ([at for at in range(len(values)) if at in one] for one in strong_components(leads))
    return [[values[at] for at in group] for group in sorted(filter(None, found))]


def _together(each: Sequence[Mapping[bool, Row]], *, decisive: bool) -> Mapping[bool, Row]:
    """The truths of independent parts together; `decisive` is the value that one part decides."""
    found: dict[bool, Row] = {}
    if deciding := [rows[decisive] for rows in each if decisive in rows]:
        found[decisive] = deciding[0]
    others = [rows[not decisive] for rows in each if (not decisive) in rows]
    if len(others) == len(each):
        found[not decisive] = dict(ChainMap(*map(dict, others)))
    return found
