"""`no-effect`: keys or texts of an agent, in its Markdown file or beside it, that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language.agents.agent import AgentBase
from loopkit.language.template import TemplateError, parse

WAYS = {
    "system": 'name it: `stdin: "{{ system }}\\n\\n{{ prompt }}"`, or as an argument',
    "tools": "name them in an argument: `{{ agent.tools | join(',') }}`",
}


def check_agent_files(subject: Subject) -> Iterator[Problem]:
    """The keys that reading the files has ignored, and texts that a program never receives."""
    yield from subject.source.notes
    for name, agent in subject.machine.agents.items():
        for key, known_as in (("system", "system"), ("tools", "agent")):
            own = agent.own_names
            if known_as in own and getattr(agent, key) and not _tells(agent, known_as):
                message = f"the program never gets this: none of its templates names `{known_as}`"
                yield subject.no_effect(("agents", name, key), message, WAYS[key])


def _tells(agent: AgentBase, name: str) -> bool:
    """Whether a template of the agent has the name, or can't be parsed."""
    try:
        return any(name in parse(text).names for _, text in agent.templates)
    except TemplateError:
        return True
