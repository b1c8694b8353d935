"""Checks of the files that judge: `author-edits-its-check`, `bad-path`, `no-effect`.

Only a file that a command names is looked at, not what a program finds for itself, such as the
tests that a test runner collects or the targets of a build: who writes code may write its tests.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from loopkit.checks.subject import CODE, Found, Subject, of_machine, of_rules
from loopkit.checks.text_as_code import (
    HOLE,
    INTERPRETERS,
    SHELL,
    WRAPPERS,
    Interpreter,
    operand_of_wrapper,
    program_name,
)
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import Workspace
from loopkit.language.validators.command import CommandRule
from loopkit.proof.outcomes.analysis import PlacedRule
from loopkit.text import flaw_of_path, matches

_BETWEEN = re.compile(r"&&|\|\||[;|&\n(){}]")
_BEFORE = re.compile(r"(\w+=.*|if|then|else|do|while|until|!|exec|time)$")


@of_machine()
def check_protected(subject: Subject) -> Found:
    authors = {name for asked in subject.machine.authoring.values() for name in asked}
    for name, agent in subject.machine.agents.items():
        if agent.protected and name not in authors:
            message = f"`protect` holds for the work of an author, and `{name}` writes nothing"
            remedy = "remove it; `permissions: read` or a sandbox keeps a judge from writing"
            yield subject.problem(("agents", name, "protect"), "no-effect", message, remedy)
        for pattern in agent.protected:
            flaw = "is not a template" if "{{" in pattern else flaw_of_path(pattern)
            if flaw is not None:
                message, remedy = f"`{pattern}` {flaw}", "write a pattern such as `tests/**`"
                yield subject.problem(("agents", name, "protect"), "bad-path", message, remedy)


@of_rules(CommandRule)
def check_own_checks(subject: Subject, placed: PlacedRule[CommandRule]) -> Found:
    files = dict.fromkeys(files_run([CODE.sub(HOLE, text) for text in placed.rule.command]))
    for judging in placed.judged_at if files else ():
        for author, name, agent in _authors_before(subject, judging):
            for file in files:
                at = _editable(subject, judging, author, agent, file)
                if at is not None:
                    message = f"`{file}` judges what `{name}` does, and `{name}` may edit it"
                    remedy = f"add `protect: [{at}]` to agent `{name}`"
                    if agent.protected:
                        remedy = f"add `{at}` to `protect` of agent `{name}`"
                    path = (*placed.path, "command")
                    yield subject.problem(path, "author-edits-its-check", message, remedy)


def _authors_before(subject: Subject, judging: str) -> Iterator[tuple[str, str, Agent]]:
    """The states in which an agent works on files before a state, with the agent and its name."""
    authoring = subject.machine.authoring
    for author in sorted(subject.leading_to({judging}) & authoring.keys()):
        for name in authoring[author]:
            agent = subject.machine.agents.get(name)
            if agent is not None and agent.works_on_files:
                yield author, name, agent


def _editable(subject: Subject, judging: str, author: str, agent: Agent, file: str) -> str | None:
    """The path of a file in the author's workspace, if it can change it there unnoticed."""
    machine = subject.machine
    [judges_in] = machine.workspaces_at(judging)
    works_in = machine.workspace_at(author, agent)
    here, there = (os.path.normpath(w.path) if w else "." for w in (judges_in, works_in))
    if is_hidden(works_in, judges_in) or (here != there and "{" in here + there):
        return None
    at = os.path.relpath(os.path.join(here, file), there)
    # Before the run nobody has written it, unless it is there; of a template nobody knows.
    is_there = "{" in here or (subject.loaded.folder / here / file).is_file()
    output = machine.states[author].output_at(author)
    folder = os.path.normpath(output.folder or ".") if output else "."
    # What the author is to write is run to see what it does.
    is_work = output is not None and os.path.normpath(output.file or ".") == at
    is_work = is_work or at.startswith(f"{folder}/")
    is_safe = at.startswith("../") or any(matches(at, pattern) for pattern in agent.protected)
    return None if is_safe or is_work or not is_there else at


def is_hidden(own: Workspace | None, judges_in: Workspace | None) -> bool:
    """Whether an author works in a tree of its own, which nobody who judges sees."""
    if own is None or own.isolate == "none":
        return False
    return judges_in is None or judges_in.isolate == "none" or judges_in.path != own.path


def files_run(words: Sequence[str]) -> Iterator[str]:
    """The files that a command runs by a path below the folder, as far as its words tell."""
    at = 0
    while at < len(words):
        name = program_name(words[at])
        if "/" in words[at]:
            yield from _inside(words[at])
        if name not in WRAPPERS:
            yield from _by_interpreter(words[at + 1 :], INTERPRETERS.get(name))
            break
        at = operand_of_wrapper(words, at + 1, WRAPPERS[name])


def _inside(word: str) -> Iterator[str]:
    path = os.path.normpath(word)
    if not re.match(r"/|~|\.\.(/|$)|.*[\0$]", path):
        yield path


def _by_interpreter(words: Sequence[str], how: Interpreter | None) -> Iterator[str]:
    if how is None or how.first:
        return
    valued = how.valued.split()
    for at, word in enumerate(words):
        if at and (words[at - 1] in valued or f"-{words[at - 1][-1:]}" in valued):
            continue
        if re.match(how.code, word):
            # What follows is code, and a shell's may run files.
            yield from _by_shell("".join(words[at + 1 : at + 2])) if how is SHELL else ()
            return
        if word[:1] not in ("-", "+"):
            yield from _inside(word)
            return


def _by_shell(code: str) -> Iterator[str]:
    for command in _BETWEEN.split(code):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        while words and _BEFORE.match(words[0]):
            words = words[1:]
        if words[:1] == ["cd"]:
            return
        yield from _inside(words[1]) if words[:-1] in (["."], ["source"]) else files_run(words)
