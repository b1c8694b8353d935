"""Every template can be read, and names only what is there on every path to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopkit.checks import ways
from loopkit.checks.artifacts import way_without
from loopkit.checks.subject import Subject
from loopkit.checks.texts import OF_COMMANDS, OF_MESSAGES, Use, uses
from loopkit.definition import HumanState, JudgeRule, ModelAgent
from loopkit.flow import ANY_REPORT, Token
from loopkit.graph import DocPath
from loopkit.problems import Problem, closest, did_you_mean
from loopkit.template import Anything, Fields, Shape, TemplateError, check, parse

NOWHERE_FILLED = "it is sent as it is written"
REPORT_NAMES = frozenset({"report", "reports"})


def check_templates(subject: Subject) -> Iterator[Problem]:
    """The form of every template, and its names in each place that fills it."""
    for use in uses(subject):
        try:
            template = parse(use.text)
        except TemplateError as error:
            yield _placed(subject, use, error)
            continue
        if use.names is not None:
            for fault in check(template, use.names):
                yield _used_at(subject, use, _placed(subject, use, _explained(subject, use, fault)))


def _placed(subject: Subject, use: Use, error: TemplateError) -> Problem:
    return subject.source.problem_inside(
        use.path,
        error.code,
        error.message,
        help=error.help,
        line=error.line,
        column=error.column,
        length=error.length,
    )


def _used_at(subject: Subject, use: Use, problem: Problem) -> Problem:
    if use.used_at is None:
        return problem
    place = subject.source.document.span(use.used_at)
    return replace(problem, also=(*problem.also, ("used here", place)))


def _explained(subject: Subject, use: Use, error: TemplateError) -> TemplateError:
    """The error with the way on which a name is missing, or the place where it is known."""
    shown = error.message.partition("`")[2].partition("`")[0]
    name, _, field = shown.partition(".")
    remedy = error.help
    if error.code == "unknown-name":
        remedy = _known_elsewhere(subject, use, name) or remedy
    elif error.code == "may-be-missing" and use.state is not None:
        reason = _missing_on(subject, use.state, name, field)
        remedy = "\n".join(filter(None, (remedy, reason)))
    return TemplateError(error.code, error.message, error.line, error.column, error.length, remedy)


def _missing_on(subject: Subject, state: str, name: str, field: str) -> str:
    """Why a name may be missing when a state works: a way without it, or a faulty answer."""
    token: Token = ANY_REPORT if name in REPORT_NAMES else ("artifact", name)
    if name in subject.machine.states and name not in subject.graph.artifacts:
        token = ("facts", name)
    way = way_without(subject, token, state)
    if way is not None:
        return f"it is missing {ways.told(way)}"
    if field and name in subject.graph.artifacts:
        return (
            "an answer that breaks its schema has no fields; they are sure behind `guard: valid`,"
            " or where `on_error: {content: STATE}` catches such answers"
        )
    return ""


def _known_elsewhere(subject: Subject, use: Use, name: str) -> str:
    if name in ("choice", "comment"):
        return "only the feedback of `human` states knows it; elsewhere write `STATE.comment`"
    if name in OF_MESSAGES:
        return "only the `message:` of a rule knows it"
    if name == "artifact":
        return "only rules and judges know it; elsewhere write the artifact's own name"
    if name in OF_COMMANDS:
        return "only the command of an agent knows it"
    if closest(name, use.names or ()) is not None:
        return ""
    if use.names is not None and use.names.keys() == OF_COMMANDS.keys():
        return "here only `prompt` and `session` are known"
    if name in subject.graph.artifacts or isinstance(subject.machine.states.get(name), HumanState):
        return f"it comes into being later: no path leads from `{name}` to here"
    if name in REPORT_NAMES:
        return "nothing has been judged on any path to here"
    return _of_input(subject, name)


def _of_input(subject: Subject, name: str) -> str:
    return f"did you mean `input.{name}`?" if name in (subject.scope.input.fields or {}) else ""


def check_sees(subject: Subject) -> Iterator[Problem]:
    """What a judge is shown besides the artifact exists; what may be missing is left out there."""
    for placed in subject.rules:
        if isinstance(placed.rule, JudgeRule):
            for index, seen in enumerate(placed.rule.sees):
                path = (*placed.path, "sees", index)
                for state in placed.judged_at:
                    yield from _unseen(subject, path, seen, subject.judging[state])


def _unseen(
    subject: Subject, path: DocPath, seen: str, names: Mapping[str, Shape]
) -> Iterator[Problem]:
    shape: Shape = Fields(names)
    walked: list[str] = []
    for step in seen.split("."):
        if isinstance(shape, Anything) or (isinstance(shape, Fields) and shape.open):
            return
        fields = shape.fields if isinstance(shape, Fields) else {}
        if step not in fields:
            known = [".".join([*walked, name]) for name in fields]
            remedy = did_you_mean(seen, known) or "it is a list or a single value"
            message = (
                f"`{'.'.join(walked)}` has no field `{step}`"
                if walked
                else (f"unknown name `{step}`")
            )
            code = "unknown-field" if walked else "unknown-name"
            yield subject.source.problem(path, code, message, help=remedy)
            return
        shape = fields[step]
        walked.append(step)


def check_plain_texts(subject: Subject) -> Iterator[Problem]:
    """Texts that are no templates have no braces of one."""
    for path, text in _plain_texts(subject):
        for number, line in enumerate(text.split("\n"), 1):
            if "{{" in line and "}}" in line:
                message = f"this is no template: {NOWHERE_FILLED}"
                problem = subject.source.problem_inside(
                    path,
                    "not-a-template",
                    message,
                    help="move what changes into the prompt",
                    line=number,
                    column=line.index("{{") + 1,
                    length=2,
                )
                yield replace(problem, severity="warning")


def _plain_texts(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for name, agent in subject.machine.agents.items():
        if isinstance(agent, ModelAgent):
            yield ("agents", name, "system"), agent.system
    for placed in subject.rules:
        if isinstance(placed.rule, JudgeRule):
            for index, criterion in enumerate(placed.rule.rubric):
                yield (*placed.path, "rubric", index), criterion
