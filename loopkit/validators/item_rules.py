"""Rules about the items of data: `lookup` and `acyclic`.

By `lookup` every value is one of the known values, or every known value is used. By `acyclic` a
graph in the data has no cycle, its edges lead to nodes, and what a node needs one before it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from loopkit.language.datatypes.datatype import value_at
from loopkit.language.guard.evaluate import ITEMS, parse_path, select
from loopkit.language.guard.kleene import parse_requirement
from loopkit.language.validators import Acyclic, AcyclicRule, DataFile, Lookup, LookupRule
from loopkit.machine.cycles import (
    cycle_text,
    is_cyclic,
    reverse,
    shortest_cycles,
    strong_components,
)
from loopkit.machine.item_list import (
    MAX_HINTS,
    PAIR,
    Same,
    choices,
    ends_of,
    same_as,
    unknown,
    value_text,
    values_at,
)
from loopkit.machine.scope import over
from loopkit.text.json_text import canonical
from loopkit.validators.data import JudgedArtifact, NoData, data_in, data_of, place
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Found, defect, unreadable
from loopkit.validators.setting import Setting
from loopkit.values import Mutable, Value, field


async def check_lookup(rule: LookupRule, subject: JudgedArtifact, setting: Setting) -> list[Found]:
    """One finding for each value that is not known, or by `cover` or `avoid`.

    A missing value is not a finding here, because `schema` can require it. If the known values
    can't be read from where they are, the author of the artifact is not to blame: raises
    CannotJudge.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    lookup = rule.lookup
    is_own = lookup.in_ in ("artifact", subject.artifact)
    known = _select_values(lookup, data, setting) if is_own else known_values(lookup, setting)
    find = _find_unused if lookup.cover else _find_wrong
    return list(islice(find(lookup, data, [value for _, value in known]), MAX_FAULTS))


def known_values(lookup: Lookup, setting: Setting) -> list[tuple[str, object]]:
    data = source_of(lookup.in_, setting)
    if not any(values_at(lookup.at, data)) and not holds_nothing(lookup.at, data):
        raise CannotJudge(f"{place(lookup)} holds no values to look anything up in")
    return _select_values(lookup, data, setting)


def _select_values(lookup: Lookup, data: object, setting: Setting) -> list[tuple[str, object]]:
    """The known values: of the items that meet the condition, if there is one."""
    if lookup.where is None or lookup.at is None:
        return list(values_at(lookup.at, data))
    head, items, rest = lookup.at.rpartition(ITEMS)
    condition = parse_requirement(lookup.where)
    found: list[tuple[str, object]] = []
    for index, (location, item) in enumerate(select(head + items, data)):
        if condition.holds(item, over({"item": item, "index": index}, setting.names)):
            inner = values_at(rest.removeprefix("."), item) if rest else [("", item)]
            found += ((f"{location}.{at}" if at else location, value) for at, value in inner)
    return found


def _comparable(value: object) -> Same | None:
    """A key that is equal for equal values; mappings are compared as a whole."""
    return ("record", canonical(value)) if isinstance(value, Mapping) else same_as(value)


def holds_nothing(at: str | None, data: object) -> bool:
    """Whether a list or a mapping on the path is there and empty, so that nothing is known."""
    steps = parse_path(at) if at else ()
    for number in range(len(steps) + 1):
        path = ".".join(steps[:number]).replace(".[]", "[]")
        found = select(path, data) if path else [("", data)]
        if any(value in ([], (), {}) for _, value in found):
            return True
    return False


def _find_wrong(lookup: Lookup, data: object, known: list[object]) -> Iterator[Found]:
    """Each value that is not known, or with `avoid` each that is."""
    kinds = {_comparable(value) for value in known} - {None}
    words, hints = choices(known), MAX_HINTS
    for index, (location, value) in enumerate(_values(lookup, data).items()):
        if (_comparable(value) in kinds) != lookup.avoid:
            continue
        told = value_text(value)
        start = f"{location}: " if location else ""
        message = (
            f"{start}`{told}` is one of those in {place(lookup)}, and none of them may be used"
        )
        if not lookup.avoid:
            hints -= 1
            message = f"{start}`{told}` is not known in {place(lookup)}"
            message = unknown(message, value, words if hints >= 0 else ())
        steady = f"{'used' if lookup.avoid else 'unknown'} {told}"
        yield defect(message, steady, location, value=value, item=value, index=index)


def _find_unused(lookup: Lookup, data: object, known: list[object]) -> Iterator[Found]:
    """Each known value that is not among those of the artifact, once."""
    seen = {_comparable(value) for value in _values(lookup, data).values()} | {None}
    for index, value in enumerate(known):
        if (kind := _comparable(value)) not in seen:
            seen.add(kind)
            told = value_text(value)
            message = f"`{told}` of {place(lookup)} is not used at {lookup.place}"
            yield defect(message, f"unused {told}", value=value, item=value, index=index)


def _values(lookup: Lookup, data: object) -> dict[str, object]:
    """The values of the artifact by location; two paths may lead to the same ones."""
    return {at: value for path in lookup.path for at, value in values_at(path, data)}


def source_of(name: str | DataFile, setting: Setting) -> object:
    if isinstance(name, DataFile):
        return _require_data(name, data_in(name))
    value = value_at(setting.names, name.split("."))
    if value is None:
        raise CannotJudge(f"`{name}` is not there, so nothing can be looked up in it")
    if isinstance(value, str) and not name.startswith("input."):
        return _require_data(name, data_of(JudgedArtifact(name, value), tolerant=True))
    return value


def _require_data(name: str | DataFile, data: object | NoData) -> object:
    if isinstance(data, NoData):
        reason = data.reason.replace("the artifact", f"`{name}`", 1)
        raise CannotJudge(f"nothing can be looked up: {reason}")
    return data


class Part(Value, frozen=True):
    """Something that a node leads to, needs or gives, where it is written."""

    location: str
    node: object
    value: object


class Graph(Mutable):
    """The nodes and edges of some data, and what is wrong with single ones."""

    places: dict[Same, str] = field(default_factory=dict)
    leads: dict[Same, set[Same]] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)

    def add(self, location: str, what: str, message: str, value: object) -> None:
        steady = f"{what} {value_text(value)}"
        self.found.append(defect(f"{location}: {message}", steady, location, value=value))


async def check_acyclic(
    rule: AcyclicRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    """A finding for each id that is taken, each edge to no node, and one cycle of each component.

    A missing id or edge is not a finding here, because `schema` can require it. With `needs`, the
    only findings are things that a node needs and no node before it gives. Raises GuardError,
    CannotJudge.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    graph = Graph()
    _add_nodes(graph, rule.acyclic, data)
    words = choices(node_id for _, node_id in graph.leads)
    for edge in _edges(graph, rule.acyclic, data):
        if not rule.acyclic.open or same_as(edge.value) in graph.leads:
            _add_edge(graph, edge, words)
    if rule.acyclic.needs is not None:
        return list(islice(unmet_needs(rule.acyclic, data, graph.leads, setting), MAX_FAULTS))
    return [*graph.found, *_cycles(graph)][:MAX_FAULTS]


def _add_nodes(graph: Graph, paths: Acyclic, data: object) -> None:
    for location, value in values_at(paths.nodes, data):
        node = same_as(value)
        if node is None:
            message = f"`{value_text(value)}` is not an id; a text or a number names a node"
            graph.add(location, "no id", message, value)
        elif node in graph.places:
            message = f"`{value_text(value)}` is taken already, at {graph.places[node]}"
            graph.add(location, "taken", message, value)
        else:
            graph.places[node] = location
            graph.leads[node] = set()


def _edges(graph: Graph, paths: Acyclic, data: object) -> Iterator[Part]:
    """The edges: from each item with an id to what it names, or pairs of ids."""
    if paths.edges is None:
        return
    if not paths.is_in_nodes(paths.edges):
        for location, value in select(paths.edges, data):
            if (ends := ends_of(value)) is not None:
                yield Part(location, *ends)
            elif value is not None:
                message = f"`{value_text(value)}` is not an edge; {PAIR}"
                graph.add(location, "no edge", message, value)
        return
    # Nothing can lead back to an item without an id.
    yield from (edge for edge in _parts(paths, paths.edges, data) if same_as(edge.node))


def _add_edge(graph: Graph, edge: Part, words: Sequence[str]) -> None:
    start, end = same_as(edge.node), same_as(edge.value)
    if start in graph.leads and end in graph.leads:
        graph.leads[start].add(end)
        return
    for value, node in ((edge.node, start), (edge.value, end)):
        if node not in graph.leads and len(graph.found) < MAX_FAULTS:
            message = f"there is no node `{value_text(value)}`"
            known = words if len(graph.found) < MAX_HINTS else ()
            graph.add(edge.location, "no node", unknown(message, value, known), value)


def _cycles(graph: Graph) -> Iterator[Found]:
    for cycle in shortest_cycles(graph.leads, MAX_FAULTS):
        ids = [value for _, value in cycle]
        text = cycle_text([value_text(value) for value in ids])
        yield defect(f"the nodes form a cycle: {text}", f"circle {text}", value=ids)


MAX_PAIRS = 50_000_000
"""The most bits that are used: one for each pair of a node and a thing that nodes give."""
Leads = Mapping[Same, Collection[Same]]


def unmet_needs(paths: Acyclic, data: object, leads: Leads, setting: Setting) -> Iterator[Found]:
    """One finding for each thing that a node needs and that neither arrives there nor is given.

    `leads` are the edges of the graph. Pairs lead from the node that comes first; a node that
    names others itself comes after these. Without edges the nodes come as they are written. Raises
    CannotJudge.
    """
    source = None if paths.given is None else source_of(paths.given, setting)
    given = {same_as(value) for _, value in values_at(None, source)}
    gives = list(_parts(paths, paths.gives, data))
    if paths.edges is None:
        arrives = _in_order(paths, data, gives)
    else:
        after: Leads = reverse(leads) if paths.is_in_nodes(paths.edges) else leads
        arrives = _arriving(after, gives)
    for index, part in enumerate(_parts(paths, paths.needs, data)):
        needed, value = same_as(part.value), part.value
        if needed in given or arrives(part):
            continue
        told, node = value_text(value), value_text(part.node)
        message = f"{part.location}: no node before `{node}` gives `{told}`"
        others = (one.node for one in gives if needed and same_as(one.value) == needed)
        if (other := next(others, None)) is not None:
            message += f"; `{value_text(other)}` gives it, and does not come before"
        steady = f"unmet {node} {told}"
        yield defect(message, steady, part.location, value=value, item=value, index=index)


def _in_order(paths: Acyclic, data: object, gives: Iterable[Part]) -> Callable[[Part], bool]:
    """Whether a node that is written before gives what a part of a later one needs."""
    depth = paths.nodes.count(ITEMS)
    order = {item_of(place, depth): n for n, (place, _) in enumerate(values_at(paths.nodes, data))}
    first: dict[Same | None, int] = {}
    for part in gives:
        first.setdefault(same_as(part.value), order[item_of(part.location, depth)])
    return lambda part: first.get(same_as(part.value), inf) < order[item_of(part.location, depth)]


def item_of(location: str, depth: int) -> str:
    """The start of a location up to the item of the innermost of so many lists."""
    at = -1
    for _ in range(depth):
        at = location.index("]", at + 1)
    return location[: at + 1]


def _parts(paths: Acyclic, path: str | None, data: object) -> Iterator[Part]:
    depth = paths.nodes.count(ITEMS)
    ids = {item_of(place, depth): value for place, value in values_at(paths.nodes, data)}
    for location, value in values_at(path, data):
        if (item := item_of(location, depth)) in ids:
            yield Part(location, ids[item], value)


def _arriving(after: Leads, gives: Collection[Part]) -> Callable[[Part], bool]:
    """Whether what a node needs arrives there from those before it."""
    # By what is given a bit, and by node the bits of all that arrives.
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
    return lambda need: bool(bits.get(same_as(need.value), 0) & at.get(same_as(need.node), 0))
