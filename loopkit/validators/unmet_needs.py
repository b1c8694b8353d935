"""Unmet needs of an `acyclic` rule: things that a node needs and no node before it gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from loopkit.language import Acyclic
from loopkit.language.guard.paths import ITEMS
from loopkit.machine.components import is_cyclic, strong_components
from loopkit.machine.path_values import Same, same_as, value_text, values_at
from loopkit.validators.fault import CannotJudge, Fault
from loopkit.validators.lookup import source_of
from loopkit.validators.setting import Setting
from loopkit.values import Value

MAX_PAIRS = 50_000_000
"""The most bits that are used: one for each pair of a node and a thing that nodes give."""
Leads = Mapping[Same, Collection[Same]]


class Part(Value, frozen=True):
    """Something that a node needs or gives, where it is written."""

    location: str
    node: object
    value: object


def unmet_needs(paths: Acyclic, data: object, leads: Leads, setting: Setting) -> Iterator[Fault]:
    """One fault for each thing that a node needs and that neither arrives there nor is given.

    `leads` are the edges of the graph. Pairs lead from the node that comes first; a node that
    names others itself comes after these. Raises CannotJudge.
    """
    source = None if paths.given is None else source_of(paths.given, setting)
    given = {same_as(value) for _, value in values_at(None, source)}
    gives = list(_parts(paths, paths.gives, data))
    after = _reverse(leads) if paths.is_in_nodes(paths.edges) else leads
    arriving = _Arriving.along(after, gives)
    for index, part in enumerate(_parts(paths, paths.needs, data)):
        needed = same_as(part.value)
        if needed not in given and not arriving.reaches(part):
            others = [
                one.node for one in gives if needed is not None and same_as(one.value) == needed
            ]
            yield _fault(part, others, index)


def item_of(location: str, depth: int) -> str:
    """The start of a location up to the item of the innermost of so many lists."""
    at = -1
    for _ in range(depth):
        at = location.index("]", at + 1)
    return location[: at + 1]


def _parts(paths: Acyclic, path: str | None, data: object) -> Iterator[Part]:
    """The values at a path in the nodes that have an id."""
    depth = paths.nodes.count(ITEMS)
    ids = {item_of(place, depth): value for place, value in values_at(paths.nodes, data)}
    for location, value in values_at(path, data):
        if (item := item_of(location, depth)) in ids:
            yield Part(location, ids[item], value)


def _reverse(leads: Leads) -> Leads:
    back: dict[Same, list[Same]] = {node: [] for node in leads}
    for node, following in leads.items():
        for other in following:
            back[other].append(node)
    return back


class _Arriving(Value, frozen=True):
    """By node, the things given that arrive there: a bit for each."""

    bits: Mapping[Same | None, int]
    at: Mapping[Same | None, int]

    def reaches(self, part: Part) -> bool:
        return bool(self.bits.get(same_as(part.value), 0) & self.at.get(same_as(part.node), 0))

    @classmethod
    def along(cls, after: Leads, gives: Collection[Part]) -> _Arriving:
        bits: dict[Same | None, int] = {}
        for part in gives:
            bits.setdefault(same_as(part.value), 1 << len(bits))
        if len(bits) * len(after) > MAX_PAIRS:
            raise CannotJudge("the graph is too large to follow what its nodes give to each other")
        own: dict[Same | None, int] = dict.fromkeys(after, 0)
        for part in gives:
            node = same_as(part.node)
            own[node] = own.get(node, 0) | bits[same_as(part.value)]
        at: dict[Same | None, int] = dict.fromkeys(after, 0)
        for component in strong_components(after):
            is_circle = is_cyclic(component, after)
            inside = 0
            for node in component:
                inside |= at[node] | (own[node] if is_circle else 0)
            for node in component:
                at[node] |= inside
                for other in after[node]:
                    at[other] |= inside | own[node]
        return cls(bits, at)


def _fault(part: Part, others: list[object], index: int) -> Fault:
    needed, node = value_text(part.value), value_text(part.node)
    message = f"{part.location}: no node before `{node}` gives `{needed}`"
    if others:
        message += f"; `{value_text(others[0])}` gives it, and does not come before"
    steady = f"unmet {node} {needed}"
    return Fault(message, steady, part.location, value=part.value, item=part.value, index=index)
