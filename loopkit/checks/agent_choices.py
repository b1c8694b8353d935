"""`agent-choice`, `no-effect`: a word that can't choose an agent, or agents that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import Agent, AgentChoice
from loopkit.language.template import Template, TemplateError, check, parse
from loopkit.machine.choosing import word_types

SOURCES = "name a field of the input or of an artifact, such as `input.task.agent`"
Same = Callable[[Agent], object]
ALIKE: tuple[tuple[Same, str], ...] = (
    (
        lambda agent: agent.schema_ is not None,
        "some of these agents answer with data, others do not",
    ),
    (
        lambda agent: agent.infeasible is None,
        "some of these agents have `infeasible`, others do not",
    ),
)
"""Properties that all agents of one choice have to share, with the message if they do not."""


def check_agent_choices(subject: Subject) -> Iterator[Problem]:
    """The word that chooses an agent, and the agents among which it chooses."""
    for name, choice in subject.machine.choices.items():
        path: DocPath = ("states", name, "agent")
        template = _word(choice)
        if template is None:
            message = f"`{choice.from_}` is not the path of a word"
            yield subject.source.problem((*path, "from"), "agent-choice", message, help=SOURCES)
            continue
        faults = list(check(template, subject.entering[name]))
        for fault in faults:
            yield subject.source.problem(
                (*path, "from"), fault.code, fault.message, help=fault.help
            )
        if not faults:
            yield from _words(subject, path, choice)
        agents = subject.machine.agents_at(name)
        for of, message in ALIKE:
            if len({of(agent) for agent in agents}) > 1:
                remedy = "make them alike, or use two states"
                yield subject.source.problem((*path, "of"), "agent-choice", message, help=remedy)


def _word(choice: AgentChoice) -> Template | None:
    try:
        template = parse(choice.template)
    except TemplateError:
        return None
    is_path = template.whole is not None and ".".join(template.whole) == choice.from_
    return template if is_path and len(choice.steps) > 1 else None


def _words(subject: Subject, path: DocPath, choice: AgentChoice) -> Iterator[Problem]:
    """Whether each possible word has an agent, and each agent has a possible word."""
    for known in word_types(subject.graph, choice):
        if known is None or not (known.scalar or known.fields or known.items):
            continue
        if known.scalar != "str":
            message = f"`{choice.from_}` is not a text"
            remedy = f"give it the type `{'|'.join(choice.of)}`"
            yield subject.source.problem((*path, "from"), "agent-choice", message, help=remedy)
        elif known.values:
            missing = [word for word in known.values if word not in choice.of]
            for word in missing:
                message = f"`{choice.from_}` may be `{word}`, for which there is no agent"
                remedy = f"add `{word}: AGENT`"
                yield subject.source.problem((*path, "of"), "agent-choice", message, help=remedy)
            for word in choice.of:
                if word not in known.values:
                    message = f"`{choice.from_}` is never `{word}`"
                    remedy = did_you_mean(word, missing) if missing else "delete it"
                    yield subject.no_effect((*path, "of", word), message, remedy)
