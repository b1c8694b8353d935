"""Checks of guards and of conditions on data: their syntax, names and types.

The codes are those of the guard language and, for what rules read of data, `unknown-field`.
`unknown-name` gets its remedy here, which says where the name is known or what to write instead.
What only code computes gets the rule that says it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from loopkit.checks.subject import Found, Subject, of_machine, of_rules, on_path
from loopkit.document.document import DocPath
from loopkit.document.problems import closest, did_you_mean
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.facts import BOOL, OF_REVISING, SCORE
from loopkit.language.guard.evaluate import ITEMS, parse_path, parse_requirement
from loopkit.language.guard.grammar import (
    ELSEWHERE,
    KEYWORDS,
    Guard,
    GuardError,
    GuardProblem,
    nodes_of_names,
    problem_at,
)
from loopkit.language.guard.type_check import GuardType, check
from loopkit.language.template.grammar import Anything, Fields, Items, Shape, item_of, member
from loopkit.language.validators import RequireRule, Rule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.scope import over, own_names
from loopkit.proof.outcomes.analysis import PlacedRule, parse_or_problem
from loopkit.values import Value

_LENGTH = r"(?:len\((?P<of>[\w.]+)\)|(?P<on>[\w.]+)\s*\|\s*(?:length|count)\b)"
_COMPARED = re.compile(rf"{_LENGTH}\s*(?P<sign>[<>]=?|==)\s*(?P<number>\d+)")
_LIMITS = {">": (("min", 1),), ">=": (("min", 0),), "<": (("max", -1),), "<=": (("max", 0),)}
_OF_EACH = re.compile(r"(?P<each>[\w.\[\]]*\[\])\.(?P<require>[\w.]+ *(?:[<>=!]|in |not ).*)")
_OF_LIST = re.compile(
    r"\b(?P<call>sum|min|max|any|all|set|sorted)\(\s*(?P<path>[A-Za-z_]\w*(?:\.[A-Za-z_][\w-]*)+)\s*\)"
)
_WORD = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\.?[A-Za-z_]\w*(?=\s*\())
      | (?P<path>[A-Za-z_]\w*(?:\[\])?(?:\.[A-Za-z_][\w-]*(?:\[\])?(?![\w(]))*)""",
    re.VERBOSE,
)


class Use(Value, frozen=True):
    path: DocPath
    text: str
    types: Mapping[str, GuardType]
    state: str | None = None
    """The state whose transition it guards; None for the guard of a rule."""


@of_machine()
def check_named(subject: Subject) -> Found:
    """The guards under `guards:`: their syntax, and that they do not use each other in a cycle."""
    for name, parsed in subject.guards.named.items():
        if isinstance(parsed, GuardProblem) and not _is_reported_elsewhere(subject, name):
            fault = _computed(subject, parsed, subject.machine.guards[name])
            yield subject.fault(("guards", name), fault)


def _computed(subject: Subject, fault: GuardProblem, text: str) -> GuardProblem:
    """The fault, with a rule of the state that judges what the guard computes as its remedy."""
    if fault.help != ELSEWHERE:
        return fault
    found = _COMPARED.search(text)
    artifact = (found["of"] or found["on"]) if found else ""
    if found is None or artifact not in subject.graph.artifacts:
        known = "`min_chars`, `min_words`, `contains`, `matches` or `require`"
        remedy = f"let a rule of a `validate` state judge it ({known}), and write `guard: valid`"
        return fault.replace(help=f"{remedy};\nwhat none of them says, a `python` rule does")
    number, limits = int(found["number"]), _LIMITS.get(found["sign"], (("min", 0), ("max", 0)))
    rules = ", ".join(f"{{{end}_chars: {number + more}}}" for end, more in limits)
    whose = f"the state that validates `{artifact}`"
    return fault.replace(
        help=f"add the rule `{rules}` to `by:` of {whose}, and write `guard: valid`"
    )


def _is_reported_elsewhere(subject: Subject, name: str) -> bool:
    """Whether the fault of a named guard is that of another one, where it is reported."""
    reached = subject.guards.reached
    if name not in reached or not any(other in reached[other] for other in reached[name]):
        return False
    in_circle = name in reached[name]
    circle = [other for other in reached if other in reached[name] and name in reached[other]]
    return not in_circle or circle[0] != name


@of_machine()
def check_guards(subject: Subject) -> Found:
    for use in uses(subject):
        fault = subject.guards.problem_of(use.text)
        if fault is not None:
            yield subject.fault(use.path, _computed(subject, fault, use.text))
        elif whole := subject.guards.whole(use.text):
            yield from _place_faults(subject, use, check(whole, use.types))


def uses(subject: Subject) -> Iterator[Use]:
    for name in subject.states:
        types = subject.guard_types[name]
        for edge in subject.graph.on(name, "done"):
            if edge.guard is not None:
                yield Use((*edge.path, "guard"), edge.guard, types, name)
    types = subject.scope.guards.common
    for placed in subject.rules:
        if placed.rule.guard is not None:
            yield Use((*placed.path, "guard"), placed.rule.guard, types)


def _place_faults(subject: Subject, use: Use, faults: list[GuardProblem]) -> Found:
    """The faults, each in the guard where it is written, which may be a named one."""
    if not faults:
        return
    wanted = {(fault.code, fault.message) for fault in faults}
    types = over(use.types, dict.fromkeys(subject.guards.usable, BOOL))
    found = False
    for path, guard in _pieces(subject, use):
        for fault in check(guard, types):
            if (fault.code, fault.message) not in wanted:
                continue
            found = True
            if fault.code == "unknown-name" and "quotes" not in fault.help:
                name = guard.text[fault.column - 1 : fault.column - 1 + fault.length]
                remedy = remedy_for(subject, use.state, use.types, name)
                fault = fault.replace(help=remedy or fault.help)
            problem = subject.fault(path, fault)
            yield problem if path == use.path else subject.with_use(problem, use.path)
    if not found:
        yield from (subject.fault(use.path, fault) for fault in faults)


def _pieces(subject: Subject, use: Use) -> Iterator[tuple[DocPath, Guard]]:
    guard = parse_or_problem(use.text)
    if isinstance(guard, Guard):
        yield use.path, guard
        used = subject.guards.named_guards_in(guard)
        for name in subject.machine.guards:
            if name in used:
                yield ("guards", name), subject.guards.usable[name]


def remedy_for(
    subject: Subject, state: str | None, types: Mapping[str, GuardType], name: str
) -> str:
    """The remedy for a guard's unknown name that is known elsewhere; else empty."""
    if state is None:
        return "the guards of rules know the input and `attempt`"
    if name in OF_REVISING and subject.graph.revise_edges[state]:
        return "the state has several revise edges; `cap_reached` is true when none is open"
    if name in OF_REVISING:
        return "it is known only where the state has a `revise:` edge"
    head, _, field = name.partition(".")
    if head == "input":
        return _of_input(subject.scope.input, name)
    if name == SCORE or (field == SCORE and head in subject.judges):
        return _of_score(subject, state if name == SCORE else head, name)
    answer = subject.machine.data_type(state) if subject.machine.agents_at(state) else None
    if answer is not None and head in (answer.fields or {}):
        near = did_you_mean(name, own_names(subject.graph, state)) if field else ""
        return near or "guards know only single values; `require:` judges lists and mappings"
    if field:
        author = next(iter(subject.graph.artifacts.get(head, ())), head)
        if f"{author}.{field}" in types:
            return f"write `{author}.{field}`: the state `{author}` writes `{head}`"
        return _of_state(subject, state, author, field)
    known = next((one for one in subject.states if f"{one}.{name}" in types), None)
    if known is not None:
        return f"write `{known}.{name}`"
    return "only `human` states have it" if name == "choice" else ""


def _of_score(subject: Subject, state: str, name: str) -> str:
    """How a state gets a score, which is none where its judge has not answered."""
    if state not in subject.judges:
        return "only `validate` states have it"
    asked = any(rule.asks for rule in subject.rules_at[state])
    judge = "its judge" if asked else "a judge: `- {judge: AGENT, score: {}, rubric: [TEXT]}`"
    return f"add {'`score: {}` to ' if asked else ''}{judge}, and write `{name} != none and …`"


def _of_input(datatype: DataType | None, name: str) -> str:
    holder, _, field = name.rpartition(".")
    held = datatype and datatype.at(holder.split(".")[1:])
    fields = (held.fields if held else None) or {}
    if field not in fields:
        return did_you_mean(name, [f"{holder or name}.{one}" for one in fields])
    return "it is a list or a mapping; guards compare single values, so judge it with `require:`"


def _of_state(subject: Subject, here: str, state: str, field: str) -> str:
    own = own_names(subject.graph, state) if state in subject.states else {}
    if field not in own:
        return did_you_mean(field, own)
    way = subject.way_without(("facts", state), here)
    if way and state in way[:-1]:
        told = f"an answer of `{state}` that violates its schema has no fields:"
        return f"{told} let the rule `{{require: {field} …}}` judge it, and write `guard: valid`"
    return f"`{state}` does not work {on_path(way)}" if way else ""


@of_rules(RuleBase)
def check_requirements(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    conditions = ((*written, parse_requirement) for written in placed.rule.conditions)
    paths = ((*written, parse_path) for written in placed.rule.paths)
    for at, text, read in (*conditions, *paths):
        try:
            read(text)
        except GuardError as error:
            fault = error.problem
            if fault.is_computed and read is parse_requirement:
                each = getattr(placed.rule, "each", None)
                names = next((subject.judging[state] for state in placed.used_at), {})
                fault = fault.replace(help=_instead_of_condition(_with_lists(text, names), each))
            yield subject.fault((*placed.path, *at), fault)


@of_rules(RuleBase)
def check_fields_read(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    """What a rule reads of the judged data has to be a field of it, where its type is known."""
    rule, names = placed.rule, list[ast.Name]()
    try:
        # What a lookup reads `at` a path is not in the judged data.
        paths = [(at, parse_path(text)) for at, text in rule.paths if at[-1] != "at"]
        if isinstance(rule, RequireRule):
            names += nodes_of_names(parse_requirement(rule.require).tree)
    except GuardError:
        return
    each = paths[0][1] if names and paths else ()
    whose = f"an item of `{_joined(each)}`" if each else "the data"
    for state in placed.used_at:
        judged = subject.states[state].judges or subject.graph.written.get(state, "")
        types = subject.data_types.get(judged, ())
        for at, steps in paths:
            if wrong := _in_all(_misread(known, steps, "the data") for known in types):
                yield subject.problem((*placed.path, *at), "unknown-field", *wrong)
        for node in names:
            steps = tuple(node.id.split("."))
            roots = (_root(subject, state, known, each, steps[0]) for known in types)
            if wrong := _in_all(_misread(root, steps, whose) for root in roots):
                fault = problem_at(node, "unknown-field", *wrong)
                yield subject.fault((*placed.path, "require"), fault)


Misreading = tuple[str, str]
"""The message and the remedy of what reads a field that is not there."""


def _in_all(found: Iterable[Misreading | None]) -> Misreading | None:
    """What is wrong whichever type the data has."""
    every = [*found]
    return every[0] if every and all(every) else None


def _root(
    subject: Subject, state: str, data: DataType, each: tuple[str, ...], name: str
) -> DataType | None:
    """The record of which a name of a condition is a field; none where it is another name."""
    item = data.at(each) or DataType({})
    if item.field(name) is not None:
        return item
    given = {"input": subject.scope.input, "artifact": data, "item": item, "index": DataType({})}
    if name in given:
        return DataType({}, fields=given)
    return None if name in subject.judging[state] else item


def _misread(known: DataType | None, steps: Sequence[str], whose: str) -> Misreading | None:
    """What is wrong with the first step to a field that is not there.

    Of a record that keeps further fields, only a name that is like one of its own is a mistake.
    """
    for index, step in enumerate(steps):
        fields = known.fields if known is not None and step not in (ITEMS, "count") else None
        if known is not None and fields is not None and known.field(step) is None:
            near, before = closest(step, fields), _joined(steps[:index])
            if near is None and known.is_open:
                return None
            remedy = did_you_mean(step, fields)
            if near is not None:
                remedy = f"did you mean `{_joined([*steps[:index], near, *steps[index + 1 :]])}`?"
            return f"{f'`{before}`' if before else whose} has no field `{step}`", remedy
        known = known.at((step,)) if known is not None else None
    return None


def _joined(steps: Sequence[str]) -> str:
    return ".".join(steps).replace(f".{ITEMS}", ITEMS)


def _with_lists(text: str, names: Mapping[str, Shape]) -> str:
    """The text with `sum(lines[].amount)` for `sum(lines.amount)`, unless `lines` is a mapping."""

    def word(found: re.Match[str]) -> str:
        *holders, last = found["path"].split(".")
        is_input = holders[0] == "input"
        shape = names.get("input" if is_input else "artifact") or Anything()
        for at in range(is_input, len(holders)):
            shape = member(shape, holders[at]) or Anything()
            is_last = at == len(holders) - 1
            if isinstance(shape, Items) or (is_last and not isinstance(shape, Fields)):
                holders[at] += ITEMS
                shape = item_of(shape)
        return f"{found['call']}({'.'.join([*holders, last])})"

    return _OF_LIST.sub(word, text)


def _instead_of_condition(text: str, each: str | None) -> str:
    """The remedy for a condition on data: `count`, or a `python` rule with the lines to write."""
    counted = re.sub(_LENGTH, lambda length: f"{length['of'] or length['on']}.count", text)
    if counted != text and not re.search(r"[(\[+*/|-]", counted):
        return f"write `{counted}`"
    if each is None and (one := _OF_EACH.fullmatch(text)):
        return f"write `{{require: '{one['require']}', each: \"{one['each']}\"}}`"
    told = 'write `python: "rules:check"` instead, and beside the machine file, in `rules.py`:'
    python = "…" if each is not None else _in_python(text)
    return f'{told}\ndef check(data, context):\n    return [] if {python} else ["…"]'


def _in_python(text: str) -> str:
    """The condition in Python, as far as it reads so; else dots."""

    def word(found: re.Match[str]) -> str:
        head, _, rest = (path := found["path"] or "").partition(".")
        if not path or path in KEYWORDS:
            return found[0]
        return _path(rest, "context.input") if head == "input" else _path(path, "data")

    written = _WORD.sub(word, text)
    with suppress(SyntaxError):
        nodes = [*ast.walk(ast.parse(written, mode="eval"))]
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        fields = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        is_known = names <= {"data", "context", "each", *vars(builtins)} and fields <= {"input"}
        if is_known and not re.search(r"\bfor\b|\|", text):
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
