"""Checks of the files that judge: `author-edits-its-check`.

Only a file that a command names is looked at, not what a program finds for itself, such as the
tests that a test runner collects or the targets of a build: who writes code may write its tests.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopkit.checks.subject import CODE, Found, Subject, of_rules
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
from loopkit.language.states import State
from loopkit.language.validators.command import CommandRule
from loopkit.proof.outcomes.analysis import PlacedRule

_BETWEEN = re.compile(r"&&|\|\||[;|&\n(){}]")
_BEFORE = re.compile(r"(\w+=.*|if|then|else|do|while|until|!|exec|time)$")


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
    if is_hidden(works_in, judges_in):
        return None
    here, there = (_path_of(workspace) for workspace in (judges_in, works_in))
    at = file
    if here != there:
        if "{" in here + there:
            return None
        at = os.path.relpath(os.path.join(here, file), there)
    is_known = "{" not in here
    is_there = not is_known or (Path(subject.loaded.folder) / here / file).is_file()
    from loopkit.outside.trees import matches  # noqa: PLC0415 - most judge by no file

    is_protected = any(matches(at, pattern) for pattern in agent.protected)
    is_work = _is_work(machine.states[author], author, at)
    return None if not is_there or is_protected or is_work or at[:2] == ".." else at


def _path_of(workspace: Workspace | None) -> str:
    return os.path.normpath(workspace.path) if workspace is not None else "."


def is_hidden(own: Workspace | None, judges_in: Workspace | None) -> bool:
    """Whether an author works in a tree of its own, which nobody who judges sees."""
    if own is None or own.isolate == "none":
        return False
    return judges_in is None or judges_in.isolate == "none" or judges_in.path != own.path


def _is_work(state: State, name: str, file: str) -> bool:
    """Whether a file is what the author is to write: it is run to see what it does."""
    output = state.output_at(name)
    if output is None:
        return False
    folder = os.path.normpath(output.folder or ".")
    is_inside = folder != "." and file.startswith(f"{folder}/")
    return is_inside or os.path.normpath(output.file or ".") == file


def files_run(words: Sequence[str]) -> Iterator[str]:
    """The files of a workspace that a command runs, as far as its words tell."""
    at = 0
    while at < len(words):
        name = program_name(words[at])
        named = [words[at]] if "/" in words[at] else []
        if name in INTERPRETERS and name not in WRAPPERS:
            named += _files_of_interpreter(words[at + 1 :], INTERPRETERS[name])
        for file in map(os.path.normpath, named):
            if not re.match(r"/|~|\.\.(/|$)|.*[\0$]", file):
                yield file
        if name not in WRAPPERS:
            break
        at = operand_of_wrapper(words, at + 1, WRAPPERS[name])


def _files_of_interpreter(words: Sequence[str], how: Interpreter) -> Iterator[str]:
    at, valued = 0, how.valued.split()
    while at < len(words) and words[at][:1] in ("-", "+"):
        if words[at] == "-" or re.match(how.code, words[at]):
            # What follows is code, and a shell's may run files.
            if how is SHELL:
                yield from _files_of_shell("".join(words[at + 1 : at + 2]))
            return
        at += 1 + (words[at] in valued or f"-{words[at][-1]}" in valued)
    yield from () if how.first else words[at : at + 1]


def _files_of_shell(code: str) -> Iterator[str]:
    for command in _BETWEEN.split(code):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            continue
        while words and _BEFORE.match(words[0]):
            words = words[1:]
        if words[:1] == ["cd"]:
            return
        yield from words[1:2] if words[:1] in (["."], ["source"]) else files_run(words)
