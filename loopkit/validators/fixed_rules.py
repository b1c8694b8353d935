"""Judging without a model: the answer of a validator, and the checks of small rules."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from loopkit import plugins
from loopkit.engine.findings import Answer, Finding
from loopkit.language.datatypes.datatype import NotationError, conform, value_at, violation
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.guard.evaluate import (
    ITEMS,
    compile_guard,
    parse_path,
    parse_requirement,
    select,
)
from loopkit.language.guard.grammar import GuardError
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.rendering import parse
from loopkit.language.validators import (
    Acyclic,
    AcyclicRule,
    ContainsRule,
    DataFile,
    LengthRule,
    Lookup,
    LookupRule,
    MatchesRule,
    NotContainsRule,
    NotMatchesRule,
    PythonRule,
    RequireRule,
    SchemaRule,
    SectionRule,
)
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
from loopkit.machine.program import Placed
from loopkit.machine.scope import over
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    run_command,
    worker_command,
    worker_environment,
)
from loopkit.outside.redaction import redact_data
from loopkit.outside.workspace import UnusableWorkspace, prepare
from loopkit.plugins import serving
from loopkit.text import one_line, plural, shorten
from loopkit.text.json_text import canonical
from loopkit.text.markdown import has_section, section, title, title_has_text, without_code
from loopkit.text.patterns import PatternError, PatternTimeout, count_of, occurrences
from loopkit.validators.command import check_command, output_clause
from loopkit.validators.data import JudgedArtifact, NoData, data_in, data_of, place
from loopkit.validators.fault import (
    MAX_FAULTS,
    CannotJudge,
    Found,
    NotStarted,
    amount,
    answer_with,
    complete,
    defect,
    further_fields,
    sees_data,
    sees_values,
    unreadable,
)
from loopkit.validators.setting import Setting
from loopkit.values import Mutable, Value, field


async def check_lookup(rule: LookupRule, subject: JudgedArtifact, setting: Setting) -> list[Found]:
    """One finding for each value that is not known, or by `cover` or `avoid`.

    A missing value is none here, because `schema` can require it. If the known values can't be
    read from where they are, the author of the artifact is not to blame: raises CannotJudge.
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

    A missing id or edge is none, because `schema` can require it. With `needs`, the only findings
    are things that a node needs and no node before it gives. Raises GuardError, CannotJudge.
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


# The rule is Any, because each check takes the noun that the table pairs it with.
RuleCheck = Callable[[Any, JudgedArtifact, Setting], Awaitable[Sequence[Found]]]


async def judge_placed(
    name: str, rules: Placed, subject: JudgedArtifact, setting: Setting
) -> Answer:
    """The answer of the validator `name`, from its rules with their places; judges are left out.

    Where the guard of every rule is false it is `not_applicable`. Never raises for what a machine
    file, an artifact or a command can contain.
    """
    setting.validator = name
    findings: list[Finding] = []
    remarks: list[str] = []
    skipped: list[str] = []
    partial: list[str] = []
    errors: list[CannotJudge] = []
    for where, rule in rules:
        setting.place, setting.remark = where, ""
        try:
            if rule.guard is not None and not _applies(rule.guard, setting.facts):
                skipped.append(f"the guard `{rule.guard}` of {where} is false")
                partial.append(rule.code or where)
                continue
            with serving(f"{setting.call}:{name}:{where}"):
                found = await CHECKS[rule.kind](rule, subject, setting)
            if found:
                findings += complete(rule, found, subject, setting)
                if len(found) >= MAX_FAULTS or any(one.is_unreadable for one in found):
                    partial.append(rule.code or where)
            remarks += filter(None, [setting.remark])
        except CannotJudge as error:
            errors.append(error)
        except (GuardError, TemplateError, PatternError, PatternTimeout) as error:
            errors.append(CannotJudge(f"{where}: {error}"))
        except RecursionError:
            reason = f"{where}: the data, or the schema, is nested too deep to be judged"
            errors.append(CannotJudge(reason))
    if len(skipped) == len(rules):
        reason = "; ".join(skipped) or "no rule of it judges without a model"
        return Answer(validator=name, verdict="not_applicable", reason=reason)
    judged = answer_with(name, findings, "; ".join(remarks)).replace(partial=tuple(partial))
    return _answer_with_errors(judged, errors, setting.now) if errors else judged


def _answer_with_errors(
    judged: Answer, errors: list[CannotJudge], now: Callable[[], float]
) -> Answer:
    """What the other rules found, and why these came to no verdict.

    What one rule found has to be corrected whatever another would have said; otherwise it is an
    `error`. Of several errors, a fatal one counts.
    """
    errors.sort(key=lambda error: error.error_class != "fatal")
    reasons = [error.reason for error in errors]
    if judged.verdict != "fail":
        judged = judged.replace(verdict="error")
    elif judged.reason:
        reasons.insert(0, judged.reason)
    waits = [one.retry_after_s for one in errors if one.retry_after_s is not None]
    return judged.replace(
        error_class=errors[0].error_class,
        not_started=any(isinstance(error, NotStarted) for error in errors),
        reason="; ".join(reasons),
        resume_at=now() + max(waits) if waits else None,
    )


def _applies(guard: str, facts: Mapping[str, object]) -> bool:
    names, holds = _compile(guard)
    if unknown := sorted(names - facts.keys()):
        raise CannotJudge(f"the guard `{guard}` names `{unknown[0]}`, which is not known here")
    return holds(facts)


@lru_cache(maxsize=512)
def _compile(text: str) -> tuple[frozenset[str], Callable[[Mapping[str, object]], bool]]:
    guard = parse_guard(text)
    return guard.names, compile_guard(guard)


async def check_length(rule: LengthRule, subject: JudgedArtifact, _setting: Setting) -> list[Found]:
    """Whether it has enough or too many; a word is what has a letter or a digit between blanks."""
    text = subject.content.strip()
    words = rule.unit == "word"
    number = sum(any(map(str.isalnum, part)) for part in text.split()) if words else len(text)
    has = f"the text has {plural(number, rule.unit, ',')}"
    limit = getattr(rule, rule.kind)
    if rule.kind.startswith("min") and number < limit:
        return [defect(f"{has}, at least {amount(limit)} needed", "too short", value=number)]
    if rule.kind.startswith("max") and number > limit:
        return [defect(f"{has}, at most {amount(limit)} allowed", "too long", value=number)]
    return []


async def check_contains(
    rule: ContainsRule | NotContainsRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    """Whether the text of a template is found, or each place of it; an empty one is nowhere."""
    text = parse(getattr(rule, rule.kind)).render(setting.names).strip()
    as_compared = str.casefold if rule.ignore_case else str
    wanted, content = as_compared(text), as_compared(subject.content)

    def lines() -> Iterator[int]:
        before, line = 0, 1
        while wanted and (at := content.find(wanted, before)) >= 0:
            line += content.count("\n", before, at)
            yield line
            line += wanted.count("\n")
            before = at + len(wanted)

    if isinstance(rule, ContainsRule):
        message = f"the text does not contain `{shorten(text, 80)}`"
        return [] if text == "" or next(lines(), None) else [defect(message, text, value=text)]
    message = f"`{shorten(text, 80)}` is not allowed"
    return [
        defect(message, text, line=line, value=text, index=index)
        for index, line in enumerate(islice(lines(), MAX_FAULTS))
    ]


async def check_matches(
    rule: MatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text = without_code(subject.content) if rule.outside_code else subject.content
    pattern = rule.matches
    least = rule.count.min
    most = rule.count.max
    # Without an upper limit, counting can stop at the lower one.
    number = count_of(pattern, text, setting.patterns, most=least if most is None else None)
    if number < least:
        message = _too_few_message(rule, number, subject, setting)
        return [defect(message, f"too few {pattern}", value=number)]
    if most is not None and number > most:
        message = (
            f"`{pattern}` matches {plural(number, 'time', ',')}, at most {amount(most)} allowed"
        )
        return [defect(message, f"too many {pattern}", value=number)]
    return []


async def check_not_matches(
    rule: NotMatchesRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    text = without_code(subject.content) if rule.outside_code else subject.content
    found: list[Found] = []
    line, counted_to = 1, 0
    matches = islice(occurrences(rule.not_matches, text, setting.patterns), MAX_FAULTS)
    for index, match in enumerate(matches):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        excerpt = shorten(" ".join(match.group().split()), 80)
        message = f"`{excerpt}` is not allowed (nothing may match `{rule.not_matches}`)"
        found.append(defect(message, excerpt, line=line, value=match.group(), index=index))
    return found


def _too_few_message(
    rule: MatchesRule, number: int, subject: JudgedArtifact, setting: Setting
) -> str:
    where = "text outside code" if rule.outside_code else "text"
    if number or rule.count.min > 1:
        times = plural(number, "time", ",")
        least = amount(rule.count.min)
        return f"`{rule.matches}` matches {times} in the {where}, at least {least} needed"
    message = f"nothing in the {where} matches `{rule.matches}`"
    inside = rule.outside_code and count_of(rule.matches, subject.content, setting.patterns, most=1)
    return f"{message}; what matches stands inside code" if inside else message


WORKER = worker_command("loopkit.outside.plugin_worker")
MAX_REASON = 1_000


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    findings: list[plugins.Finding] = []
    error: str = ""


async def check_python(rule: PythonRule, subject: JudgedArtifact, setting: Setting) -> list[Found]:
    """What the plug-in finds, which has a process of its own.

    Anything else is not a verdict: raises CannotJudge, transient after a timeout.
    """
    folder, names = setting.folder, setting.names
    request = {
        "python": rule.python,
        "folder": rule.folder,
        "value": subject.data if subject.is_data else subject.content,
        "context": {
            "artifact": subject.artifact,
            "attempt": names.get("attempt", 1),
            "input": names.get("input", {}),
            "arguments": rule.with_,
            "seen": sees_values(rule, names),
        },
    }
    try:
        result = await run_command(
            WORKER,
            cwd=folder if folder is None or folder.is_dir() else prepare(folder),
            env=worker_environment(rule.env),
            stdin=json.dumps(request),
            timeout_s=rule.timeout,
        )
    except (CommandNotStarted, UnusableWorkspace) as error:
        raise CannotJudge(_failure_text(rule, str(error), setting)) from error
    except CommandTimeout as error:
        reason = f"it took longer than {rule.timeout:g} s; give it more `timeout`, or less to do"
        raise CannotJudge(
            _failure_text(rule, reason, setting, error.stderr), "transient"
        ) from error
    told = _read_answer(rule, result, setting).findings
    return [_found_by_plugin(rule, one, setting) for one in told]


def _read_answer(rule: PythonRule, result: CommandResult, setting: Setting) -> _Answer:
    try:
        found = _Answer.model_validate_json(result.stdout)
    except ValidationError as error:
        code = result.exit_code
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        reason = f"its process ended with {ended} and gave no answer"
        raise CannotJudge(_failure_text(rule, reason, setting, result.stderr)) from error
    if found.error:
        raise CannotJudge(_failure_text(rule, found.error, setting, result.stderr))
    return found


def _failure_text(rule: PythonRule, reason: str, setting: Setting, stderr: str = "") -> str:
    failed = f"the plug-in `{rule.python}` failed: {one_line(reason, MAX_REASON)}"
    return setting.redact(f"{failed}{output_clause('', stderr)}")


def _found_by_plugin(rule: PythonRule, told: plugins.Finding, setting: Setting) -> Found:
    levels, redact = setting.severities.levels, setting.redact
    if told.severity and told.severity not in levels:
        reason = f"it returned the severity {told.severity!r}; there are {', '.join(levels)}"
        raise CannotJudge(_failure_text(rule, reason, setting))
    message = redact(told.message)
    finding = Finding(
        id="",
        message=message,
        severity=told.severity,
        code=redact(one_line(told.code)),
        key=redact(one_line(told.key)),
        location=redact(one_line(told.location)),
        line=told.line,
        item=further_fields(redact_data(told.fields, redact), ()),
    )
    return Found(finding, message, value=message)


MOST_CHARS = 120
"""The most characters of an item in a message."""


async def check_require(
    rule: RequireRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    """One finding for the artifact, or with `each` for every item that does not meet the condition.

    A path that leads to no item passes; another rule can require that there are some. Raises
    GuardError.
    """
    data = data_of(subject, tolerant=True)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    requirement = parse_requirement(rule.require)
    items = [("", data)] if rule.each is None else select(rule.each, data)
    own = {subject.artifact: data, "artifact": data}
    names = over(sees_data(rule, setting.names) | own, setting.names)
    unmet = (
        _unmet_requirement(rule, location, item, index)
        for index, (location, item) in enumerate(items)
        if not requirement.holds(item, over({"item": item, "index": index}, names))
    )
    return list(islice(unmet, MAX_FAULTS))


def _unmet_requirement(rule: RequireRule, location: str, item: object, index: int) -> Found:
    place = f"{location}: " if location else ""
    text = shorten(json.dumps(item, ensure_ascii=False), MOST_CHARS)
    shown = f", it is {text}" if rule.each is not None else ""
    message = f"{place}`{rule.require}` is required{shown}"
    return defect(message, rule.require, location, value=item, item=item, index=index)


async def check_schema(rule: SchemaRule, subject: JudgedArtifact, _setting: Setting) -> list[Found]:
    data = data_of(subject, tolerant=rule.tolerant)
    if isinstance(data, NoData):
        return [unreadable(data.reason)]
    try:
        _, faults = conform(data, parse_type(rule.schema_))
    except NotationError as error:
        raise CannotJudge(f"the schema cannot be used: {error}") from error
    except NotJudged as error:
        raise CannotJudge(f"the data could not be checked against the schema: {error}") from error
    return [
        defect(violation(location, message)[1], message, location, value=data)
        for location, message in faults[:MAX_FAULTS]
    ]


async def check_section(
    rule: SectionRule, subject: JudgedArtifact, _setting: Setting
) -> list[Found]:
    text, start = subject.content, f'no section "{rule.section}"'
    if section(text, rule.section, placeholders=rule.placeholders) is not None:
        return []
    if (written := section(text, rule.section)) is not None:
        wrong = one_line(written)
        message = f'the section "{rule.section}" has only a placeholder under it: {wrong}'
    elif has_section(text, rule.section):
        message = f'the section "{rule.section}" has no text under it'
    elif not rule.or_title:
        message = (
            f"{start}: it needs a heading or a label `**{rule.section}:**`, with text under it"
        )
    elif not title_has_text(text):
        message = f"{start}, and no title with text under it"
    elif title(text, strip=rule.strip, placeholders=rule.placeholders) is None:
        message = f"{start}, and the title is only a placeholder"
    else:
        return []
    return [defect(message, f"section {rule.section}")]


CHECKS: Mapping[str, RuleCheck] = {
    "acyclic": check_acyclic,
    "command": check_command,
    "contains": check_contains,
    "lookup": check_lookup,
    "matches": check_matches,
    "max_chars": check_length,
    "max_words": check_length,
    "min_chars": check_length,
    "min_words": check_length,
    "not_contains": check_contains,
    "not_matches": check_not_matches,
    "python": check_python,
    "require": check_require,
    "schema": check_schema,
    "section": check_section,
}
"""The check of each kind of rule that needs no model."""
