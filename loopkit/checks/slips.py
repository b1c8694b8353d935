"""Checks of what is sound and hardly meant: texts that are not filled in or cut off, rules that
demand nothing, judges without criteria, and successes without a result.

`not-filled-in`, `cut-off`, `no-demand`, `no-criteria`, `no-result`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from loopkit.checks.subject import CODE, Found, Subject, in_template, of_machine, of_rules
from loopkit.checks.templates import plain_texts, uses
from loopkit.checks.text_as_code import INTERPRETERS, WRAPPERS, program_name
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.agents.model import ModelAgent
from loopkit.language.states.kinds import AgentState
from loopkit.language.states.state import ExtractSection, Output
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Anything, Fields, Shape, member
from loopkit.language.validators import LengthRule, MatchesRule, Rule, SectionRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.scope import shape_of
from loopkit.proof.outcomes.analysis import PlacedRule
from loopkit.text.json_text import texts_in

NAME = r"[a-z_]\w*(?:\.[a-z_]\w*)*"
SINGLE = re.compile(rf"(?<![\w{{$%#/`\\])\{{\s*({NAME})\s*\}}(?![}}`/])")
OF_SHELL = re.compile(r"(?<![$\\])\$\{([A-Za-z_]\w*)\}")
DOLLAR = re.compile(rf"(?<![$\w\\])\$\{{\{{-?\s*({NAME})\s*-?\}}\}}")
MONEY = re.compile(r"cost|price|usd|amount|total|sum|budget|fee|pay|dollar|spent|money|value")


@of_machine()
def check_braces(subject: Subject) -> Found:
    """A name that is known at its place stands in single braces, or behind a `$`."""
    given = shape_of(subject.scope.input)
    told: set[DocPath] = set()
    sent = ((path, text, {"input": given}) for path, text in plain_texts(subject))
    filled = ((use.path, use.text, use.names) for use in uses(subject))
    for path, text, names in (*filled, *sent):
        names = {} if names is None else names
        if "{" not in text or path in told:
            continue
        told.add(path)
        for at, length, name in _dollars(text):
            if not MONEY.search(name) and not _is_number(subject, name):
                message = f"a `$` stands before the value of `{name}`, and is printed"
                remedy = f"write `{{{{ {name} }}}}` alone"
                yield _here(subject, path, text, at, length, message, remedy)
        bare = CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
        for found in (*SINGLE.finditer(bare), *OF_SHELL.finditer(bare)):
            written = found[1] if found[0][0] == "{" else found[1].lower()
            name = _known(written, names, given)
            if name and name.rpartition(".")[2] not in in_template(text).names:
                message = f"`{found[0]}` is not filled in"
                remedy = f"a template has two braces: `{{{{ {name} }}}}`"
                yield _here(subject, path, text, found.start(), len(found[0]), message, remedy)


def _dollars(text: str) -> Iterator[tuple[int, int, str]]:
    for found in DOLLAR.finditer(text):
        yield found.start(), len(found[0]), found[1]


def _is_number(subject: Subject, name: str) -> bool:
    first, *steps = name.split(".")
    known = subject.scope.input.at(steps) if first == "input" else None
    return known is not None and known.scalar in ("int", "num")


def _known(written: str, names: Mapping[str, Shape], given: Shape) -> str:
    """The name in a template that was meant by a word; empty where it is none."""
    first, *steps = written.split(".")
    if first not in names:
        inputs = given.fields if isinstance(given, Fields) else {}
        return f"input.{written}" if "input" in names and first in inputs and not steps else ""
    shape: Shape | None = names[first]
    for step in steps:
        shape = None if shape is None or isinstance(shape, Anything) else member(shape, step)
    return written if shape is not None and first != "item" else ""


def _here(
    subject: Subject, path: DocPath, text: str, at: int, length: int, message: str, remedy: str
) -> Problem:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    fault = TemplateError("not-filled-in", message, line, column, length, remedy)
    return subject.fault(path, fault).replace(severity="warning")


VARIABLE = re.compile(r"\$(?:\{([A-Z_][A-Z0-9_]*)\}|([A-Z_][A-Z0-9_]+)\b)")
ARGUMENT = re.compile(rf"(?:[\w-]+=)?{VARIABLE.pattern}(?:[/:][\w./-]*)?")
AS_WRITTEN = {"base_url", "api_key_env", "model", "path", "url", "file", "folder", "params"}
PROGRAMS = {"run", "command", "resume"}
OWN_WAYS = {*INTERPRETERS, *WRAPPERS, "ssh", "watch", "envsubst", "make", "tmux"}
"""Programs that fill in variables, or hand their words to one that does."""
PLACES = "in a machine file only the `headers` of an MCP server read variables"


@of_machine()
def check_variables(subject: Subject) -> Found:
    """`${VAR}` stands where nothing fills it in."""
    plain = subject.source.document.plain()
    for path, text in texts_in(plain) if isinstance(plain, dict) else ():
        keys = {step for step in path if isinstance(step, str)}
        found = VARIABLE.search(text)
        if found is None or path[0] in ("input", "tests") or "headers" in keys:
            continue
        name = found[1] or found[2]
        if words := PROGRAMS & keys:
            at = next(n for n, step in enumerate(path) if step in words) + 1
            node = subject.source.document.node(path[:at])
            listed = node.value if node is not None and isinstance(node.value, tuple) else ()
            programs = {program_name(str(word.value)) for word in listed}
            if not programs or programs & OWN_WAYS or not ARGUMENT.fullmatch(text):
                continue
            remedy = f"run it in a shell: `[sh, -c, '…']`, with `env: [{name}]` beside it"
        elif not AS_WRITTEN & {path[-1], *path[-2:-1], *path[-3:-2]}:
            continue
        elif path[-1] == "api_key_env":
            remedy = f"write the name alone: `api_key_env: {name}`"
        else:
            remedy = f"write the value itself; {PLACES}"
        message = f"`{found[0]}` is not filled in: it is taken as it is written"
        yield subject.problem(path, "not-filled-in", message, remedy)


ENDED = re.compile(r"[.!?:;…\"')\]}]\s*$")
GOES_ON = re.compile(r"#(?:\s?\d|\w|.*[.!?]\s*$)")
ASIDE = re.compile(r"#+\s*(?:todo|fixme|noqa|xxx|note|yamllint|pylint|type:)", re.IGNORECASE)


@of_machine()
def check_comments(subject: Subject) -> Found:
    """A plain text ends before a comment that reads like the rest of it."""
    document = subject.source.document
    rows = document.text.splitlines()
    every = [*((use.path, use.text) for use in uses(subject)), *plain_texts(subject)]
    for path in dict.fromkeys(document.as_written(path) for path, _ in every):
        node = document.node(path)
        if node is None or node.style != "plain" or " " not in node.raw:
            continue
        end = node.span.end_column - 1
        rest = rows[node.span.end_line - 1][end:] if node.span.file == document.file else ""
        comment = rest.strip()
        if not comment.startswith("#") or ENDED.search(node.raw) or ASIDE.match(comment):
            continue
        if GOES_ON.match(comment):
            message = f"the text ends before ` {comment}`, which YAML reads as a comment"
            remedy = "quote the text if that is a part of it; else end the text with a full stop"
            yield subject.problem(path, "cut-off", message, remedy)


NO_TEXTS = ("", "a", "7", "-", "\n", "é b\n")
"""Texts that have nothing in common."""


@of_rules(RuleBase)
def check_demands(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    """A rule can fail, and can pass."""
    rule = placed.rule
    path = (*placed.path, rule.kind)
    if isinstance(rule, LengthRule):
        number = getattr(rule, rule.kind)
        if number == 0:
            every = rule.kind.startswith("min")
            message = "every text has that" if every else f"every text has more {rule.unit}s"
            yield subject.problem(path, "no-demand", message, "write the number that is meant")
    elif isinstance(rule, SectionRule):
        yield from _section(subject, path, rule.section)
    for at, written in rule.patterns:
        pattern = subject.pattern(written)
        is_counted = isinstance(rule, MatchesRule) and rule.count.max is not None
        if at[0] == "verdict" or pattern is None or is_counted:
            continue
        if written == "" or all(pattern.search(text) for text in NO_TEXTS):
            name = "an empty pattern" if written == "" else f"`{written}`"
            message = f"{name} matches every text, whatever stands in it"
            least = isinstance(rule, MatchesRule) and rule.count.min > 1
            if not least:
                yield subject.problem(
                    (*placed.path, *at), "no-demand", message, "write what has to be found"
                )


@of_machine()
def check_fields(subject: Subject) -> Found:
    for name, state in subject.states.items():
        output = getattr(state, "output", None)
        for field, how in output.fields.items() if isinstance(output, Output) else ():
            path = ("states", name, "output", "fields", field)
            if isinstance(how, ExtractSection):
                yield from _section(subject, (*path, "section"), how.section)
            for key in ("match", "all", "count"):
                if getattr(how, key, None) == "":
                    message = "an empty pattern finds nothing but an empty text"
                    remedy = "write what has to be found"
                    yield subject.problem((*path, key), "no-demand", message, remedy)


def _section(subject: Subject, path: DocPath, name: str) -> Found:
    if not name.strip():
        message = "no section has an empty name"
        yield subject.problem(path, "no-demand", message, "write the heading of the section")


@of_machine()
def check_no_revision(subject: Subject) -> Found:
    for edge, written in subject.revise_edges:
        if getattr(written, "max", None) == 0:
            message = "with a `max` of 0 nothing is ever revised"
            remedy = "write how often it may be, or delete the edge"
            yield subject.problem((*edge.path, "max"), "no-demand", message, remedy)


@of_rules(JudgeRule)
def check_criteria(subject: Subject, placed: PlacedRule[JudgeRule]) -> Found:
    rule = placed.rule
    asked = subject.machine.agents.get(rule.judge)
    has_some = any(map(str.strip, (*rule.rubric, rule.prompt or "")))
    is_told = has_some or not rule.is_own_form
    if isinstance(asked, ModelAgent) and not is_told and not asked.system.strip():
        message = "this judge has no criteria: it is only asked whether the work can be used"
        remedy = "say what it judges by: `rubric: [It names two teas.]`, or write a `prompt:`"
        yield subject.problem((*placed.path, "judge"), "no-criteria", message, remedy)


@of_machine("unneeded")
def check_results(subject: Subject) -> Found:
    """A text that a model writes comes out of a success, if of anything."""
    machine = subject.machine
    finals = {name: state for name, state in machine.finals.items() if state.succeeds}
    is_given = any(state.result or state.mark for state in finals.values())
    working = machine.states_of(AgentState)
    is_effect = (
        machine.workspace is not None
        or any(agent.works_on_files for agent in machine.agents.values())
        or any(state.emits or state.kind not in KINDS for state in machine.states.values())
    )
    written = {name: state.output_at(name) for name, state in working.items()}
    # What has a form may only be for guards.
    texts = [
        output.name
        for name, output in written.items()
        if not (output.is_left or output.fields)
        and not any(agent.schema_ for agent in machine.agents_at(name))
    ]
    if is_given or is_effect or not texts or len(texts) < len(written):
        return
    for name in finals:
        # On some ways to it, nothing may have been written.
        sure = [text for text in texts if subject.way_without(("artifact", text), name) is None]
        for text in sure[-1:]:
            message = f"this success has no result, and nothing else gives out `{text}`"
            remedy = f"add `result: {text}`"
            yield subject.problem(("states", name, "final"), "no-result", message, remedy)


KINDS = ("agent", "validate", "render", "choice", "human", "final")
