"""`unknown-name`, `may-be-missing`: templates that can't be read, or filled on every path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopkit.checks import state_paths
from loopkit.checks.artifacts import way_without
from loopkit.checks.subject import Subject
from loopkit.checks.template_uses import OF_AGENTS, OF_COMMANDS, OF_MESSAGES, OF_PROGRAMS, Use, uses
from loopkit.document.problems import Problem, closest
from loopkit.language.template import TemplateError, check, parse
from loopkit.machine.flow import ANY_REPORT, Token

REPORT_NAMES = frozenset({"report", "reports"})
KNOWN_TO = (
    (
        ("choice", "comment"),
        "only the feedback of `human` states knows it; elsewhere write `STATE.comment`",
    ),
    (OF_MESSAGES, "only the `message:` of a rule knows it"),
    (
        ("artifact",),
        "only rules and judges know it; elsewhere write the artifact's own name",
    ),
    (OF_COMMANDS, "only the command of an agent knows it"),
    (OF_PROGRAMS, "only the command of an agent or of a rule knows it"),
    (OF_AGENTS, "only the command of an agent with `file`, `system` or `tools` knows it"),
)
"""Names that are known in few places, with these places."""


def check_templates(subject: Subject) -> Iterator[Problem]:
    """The syntax of every template, and its names in each place that fills it."""
    for use in uses(subject):
        try:
            template = parse(use.text)
        except TemplateError as error:
            yield _place_error(subject, use, error)
            continue
        if use.names is not None:
            for fault in check(template, use.names):
                problem = _place_error(subject, use, explain(subject, use, fault))
                yield problem if use.used_at is None else subject.with_use(problem, use.used_at)


def _place_error(subject: Subject, use: Use, error: TemplateError) -> Problem:
    return subject.source.problem_inside(
        use.path,
        error.code,
        error.message,
        help=error.help,
        line=error.line,
        column=error.column,
        length=error.length,
    )


def explain(subject: Subject, use: Use, error: TemplateError) -> TemplateError:
    """The error with the path on which a name is missing, or the place where it is known."""
    shown = error.message.partition("`")[2].partition("`")[0]
    name, _, field = shown.partition(".")
    remedy = error.help
    if error.code == "unknown-name":
        remedy = _remedy_for_unknown(subject, use, name) or remedy
    elif error.code == "may-be-missing" and use.state is not None:
        reason = _missing_on(subject, use.state, name, field)
        remedy = "\n".join(filter(None, (remedy, reason)))
    return replace(error, help=remedy)


def _missing_on(subject: Subject, state: str, name: str, field: str) -> str:
    """Why a name may be missing when a state works: a path without it, or a faulty answer."""
    if name not in (*subject.graph.artifacts, *subject.machine.states, *REPORT_NAMES):
        return ""
    token: Token = ANY_REPORT if name in REPORT_NAMES else ("artifact", name)
    if name in subject.machine.states and name not in subject.graph.artifacts:
        token = ("facts", name)
    way = way_without(subject, token, state)
    if way is not None:
        return f"it is missing {state_paths.on_path(way)}"
    authors = [subject.machine.states[author] for author in subject.graph.artifacts.get(name, ())]
    if field and any(author.child is not None for author in authors):
        return "what another machine leaves depends on where it ends"
    if field and authors:
        return (
            "an answer that violates its schema has no fields; use them after `guard: valid`,"
            " or catch such answers with `on_error: {content: STATE}`"
        )
    return ""


def _remedy_for_unknown(subject: Subject, use: Use, name: str) -> str:
    if use.path[2:3] == ("tools",):
        known = ", ".join(f"`{field}`" for field in use.names or ())
        only = f"it has {known}" if known else "it has none"
        return "" if closest(name, use.names or ()) else f"a tool sees only its `input`; {only}"
    if told := next((text for names, text in KNOWN_TO if name in names), ""):
        return told
    if closest(name, use.names or ()) is not None:
        return ""
    if use.names is not None and use.names.keys() >= OF_COMMANDS.keys() and use.state is None:
        *names, last = (f"`{known}`" for known in sorted(use.names))
        return f"here only {', '.join(names)} and {last} are known"
    state = subject.machine.states.get(name)
    if name in subject.graph.artifacts or (state is not None and state.waits):
        return f"it is created later: no path leads from `{name}` to here"
    if name in REPORT_NAMES:
        return "nothing has been judged on any path to here"
    return f"did you mean `input.{name}`?" if name in (subject.scope.input.fields or {}) else ""
