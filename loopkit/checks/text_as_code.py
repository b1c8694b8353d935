"""`text-as-code`: text that the machine did not write stands where a program expects code.

It is followed from agents, programs and people, through rendered texts and the inputs of other
machines, to the arguments that interpreters run. Numbers and the words of a closed choice are none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from loopkit.checks.subject import CODE, Found, Subject, of_machine
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.guard.evaluate import ITEMS
from loopkit.language.section import Place
from loopkit.language.states import State
from loopkit.language.states.each import ChildrenState, EachState
from loopkit.language.states.kinds import MadeData, MadeText
from loopkit.language.states.state import ExtractCount
from loopkit.language.template.grammar import Path
from loopkit.language.template.rendering import OF_REPORTS, printed_by
from loopkit.language.validators.judge import JudgeRule
from loopkit.text.json_text import texts_in
from loopkit.values import Value


class Interpreter(Value, frozen=True):
    """How a program takes code from its arguments."""

    code: str
    """A pattern of the words before code, which otherwise begins in the rest of such a word."""
    valued: str = ""
    """The options that take a value."""
    script: str = ""
    """Where it reads code from stdin too: a list with code that prints its first argument."""
    first: bool = False
    """Whether the first operand is code."""
    unless: str = "(?!)"
    """A pattern of the options that make it take none."""


SHELL = Interpreter(r"(?s)-\w*c.*|--command", "-o -O --rcfile --init-file", "-c, 'echo \"$1\"', sh")
PYTHON = Interpreter(r"-\w*[cm]", "-W -X", "-c, 'import sys; print(sys.argv[1])'")
NODE = Interpreter(
    r"-\w*[ep]|--eval|--print", "-r --require --import", "-e, 'console.log(process.argv[1])', --"
)
POWERSHELL = Interpreter("(?i)-(c|command|encodedcommand)$", "-ExecutionPolicy")
_INTERPRETERS: Mapping[str, Interpreter] = {
    "sh ash bash rbash dash ksh mksh zsh csh tcsh": SHELL,
    "fish": Interpreter(r"-\w*[cC]|--(init-)?command", "", "-c, 'echo $argv[1]'"),
    "python pypy ipython pythonw py": PYTHON,
    "node nodejs bun tsx ts-node": NODE,
    "deno": Interpreter("eval$"),
    "perl": Interpreter(r"-\w*[eE]", "-I -M", "-e, 'print $ARGV[0]', --"),
    "ruby": Interpreter(r"-\w*e", "-I -r", "-e, 'puts ARGV[0]', --"),
    "php": Interpreter(r"-\w*[rRBE]", "-d -c", "-r, 'echo $argv[1];', --"),
    "pwsh powershell": POWERSHELL,
    "nu xonsh elvish guile npx su runuser": Interpreter(r"-\w*c|--commands?|--call"),
    "awk gawk mawk nawk": Interpreter(
        "-e|--source", "-F -v -i -l --assign --field-separator", first=True, unless="-f|--file|-E"
    ),
    "sed": Interpreter(r"-[nErsuz]*e|--expression", "-l", first=True, unless="-[nErsuz]*f|--file"),
    "lua luajit rscript r osascript julia elixir groovy scala racket swift": Interpreter(
        r"-\w*[eE]|--eval", "-l"
    ),
    "env": Interpreter(r"-\w*S|--split-string", "-u -C"),
}
_WRAPPERS: Mapping[str, int] = {
    "env nohup setsid time nice ionice stdbuf strace sudo doas xargs busybox npx uvx bunx": 0,
    "timeout uv poetry pdm hatch rye conda npm pnpm yarn bundle": 1,
    "docker podman kubectl": 2,
}
INTERPRETERS = {name: how for names, how in _INTERPRETERS.items() for name in names.split()}
WRAPPERS = {name: own for names, own in _WRAPPERS.items() for name in names.split()}
"""What runs another program, with the number of operands before that."""
VALUED = (
    "-u -g -k -s -I -P -L -C -e -o -w -p "
    "--user --group --kill-after --signal --env --workdir --with"
)
RUNNING = r"[\d.\0]|(run|exec|x|dlx)$"
HOLE = "\0"
WHOLE = re.compile(r"\s*\{\{[^{}]*\}\}\s*")
"""A program that is nothing but the text: whoever writes that means to run it."""
USER = "the run's `input`"
TOLD = {"feedback": "feedback", "session": "the agent's program", "previous": "an earlier version",
    **dict.fromkeys((*OF_REPORTS, "telemetry"), "validators")}  # fmt: skip
"""Who wrote what else templates know."""
OWN_FIELDS = ("attempt", "attempts", "version", "score", "verdict", "valid", "calls", "severity")
"""The fields of these that are words of ours or numbers."""


def program_name(word: str) -> str:
    """`python` for `/usr/bin/python3.12`."""
    name = re.split(r"[/\\]", word)[-1].lower().removesuffix(".exe")
    return re.sub(r"[-.\d]+$", "", name)


def code_in(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The words that name a program or are run as code, each with the word of that program.

    The one after the last is what the program reads from stdin.
    """
    at = 0
    while at < len(words):
        yield at, at
        name = program_name(words[at])
        if name in ("ssh", "watch"):
            # They hand their words to a shell.
            yield from ((word, at) for word in range(at + 1, len(words)))
        if name in INTERPRETERS:
            yield from ((word, at) for word in _code_words(words, at + 1, INTERPRETERS[name]))
        if name not in WRAPPERS:
            break
        at = operand_of_wrapper(words, at + 1, WRAPPERS[name])
    # Behind the flag of an interpreter stands code, whatever starts that.
    for at, how in enumerate(map(INTERPRETERS.get, map(program_name, words))):
        if how is not None:
            yield from ((code, at) for code in _code_words(words, at + 1, how, only_flags=True))


def operand_of_wrapper(words: Sequence[str], start: int, own: int) -> int:
    """The index of the program that a wrapper runs."""
    at = start
    while at < len(words):
        word = words[at]
        is_value = re.match(r"\w+=" if own else r"\w+=|[\d.]+\w?$", word)
        if word[:1] != "-" and not is_value:
            if own == 0:
                break
            # `uv add` and the like run nothing; `timeout` has a number there.
            if at == start and not re.match(RUNNING, word):
                return len(words)
            own -= 1
        at += 1 + (word in VALUED.split())
    return at


def _code_words(
    words: Sequence[str], index: int, how: Interpreter, *, only_flags: bool = False
) -> Iterator[int]:
    valued = how.valued.split()
    is_next = False
    while index < len(words) and not re.match(how.unless, words[index]):
        word = words[index]
        if word[:2] in valued or word in valued:
            index += word in valued
        elif flag := re.match(how.code, word):
            yield from [index] if HOLE in word else []
            if not (is_next := flag.end() == len(word)):
                return
            index += f"-{word[-1]}" in valued
        elif is_next and (word[:1] not in ("-", "+") or how is PYTHON):
            yield index
            after = "".join(words[index + 1 : index + 2])
            if how in (SHELL, PYTHON, POWERSHELL) or not re.match(r"-+\w", after):
                return
            is_next = False
        elif word[:1] not in ("-", "+") or HOLE in word:
            is_script = how.script and word.lstrip("-").startswith(HOLE)
            is_code = is_script or (how.first and word[:1] != "-")
            yield from [index] if is_code and not only_flags else []
            return
        elif f"-{word[-1]}" in valued and word[1:2] != "-":
            # The last letter of a cluster takes the next word: `-euo pipefail`.
            index += 1
        index += 1
    yield from [index] if how.script and not only_flags else []


Node = tuple[str, Path]
"""A state, or a tool of an agent, and a name with its fields as a template reads it there."""
Wrote = tuple[str, str]


@of_machine()
def check_text_as_code(subject: Subject, given: Mapping[str, str] | None = None) -> Found:
    """The commands of a machine, and of those that it hands such text to.

    `given` says who wrote each input where the machine runs inside another one.
    """
    texts = _Texts(subject, given)
    for path, written, states in _programs(subject):
        argv = [(at, text) for at, text in written if at[0] in ("run", "command", "resume")]
        stdin = [(at, text) for at, text in written if at[0] == "stdin"] or [((), "")]
        found = [*code_in([CODE.sub(HOLE, text) for _, text in argv])]
        for index, program in dict(reversed(found)).items():
            at, text = (*argv, *stdin)[index]
            if index == len(argv) and WHOLE.fullmatch(text):
                continue
            wrote = _worst(texts.wrote(state, text) for state in states) if "{" in text else None
            if wrote is not None:
                words = [text for _, text in argv[: program + 1]]
                yield _problem(subject, (*path, *at), words, index == program, *wrote)
    for name, state in subject.machine.states_of(ChildrenState).items():
        handed = {
            field: wrote[0]
            for field, value in state.input.items()
            if (wrote := _worst(texts.wrote(name, text) for _, text in texts_in(value)))
        }
        is_revised = name in subject.graph.repeated
        if name in subject.loaded.children and (is_revised or {*handed.values()} - {USER}):
            yield from check_text_as_code(Subject.of(subject.loaded.children[name]), handed)


def _worst(found: Iterable[Wrote | None]) -> Wrote | None:
    """What anybody else wrote, before what comes from whoever starts the run."""
    return min(filter(None, found), key=lambda wrote: wrote[0] == USER, default=None)


def _programs(subject: Subject) -> Iterator[tuple[DocPath, list[tuple[Place, str]], Sequence[str]]]:
    """The templates of what may start programs, and the states, or the tool, that fill them."""
    machine = subject.machine
    for name, state in machine.states.items():
        yield ("states", name), [*state.templates], [name]
    for placed in subject.rules:
        yield placed.path, [*placed.rule.templates], placed.used_at
    for name, agent in machine.agents.items():
        asking = [state for state, asked in machine.authoring.items() if name in asked]
        for judging in subject.rules_of(JudgeRule):
            asking += judging.judged_at if judging.rule.judge == name else ()
        yield ("agents", name), [*agent.templates], asking
        for tool, kind in agent.callable_tools.items():
            yield ("agents", name, "tools", tool), [*kind.templates], [f"{name}.{tool}"]


def _problem(
    subject: Subject, at: DocPath, words: Sequence[str], is_program: bool, by: str, name: str
) -> Problem:
    how = INTERPRETERS.get(program_name(words[-1]))
    message = f"`{words[-1]}` runs `{name}` as code, and it comes from {by}"
    remedy = "give it the text in a file or as its stdin, which the code reads"
    if is_program:
        message = f"`{name}` names the program to run, and it comes from {by}"
        remedy = "write the name; to choose among programs, write a state and a guard for each"
    elif how is not None and how.script:
        plain = re.compile(r"[A-Za-z_/.-][\w/.=-]*")
        argv = [w if plain.fullmatch(w) else json.dumps(w) for w in words]
        listed = ", ".join((*argv, how.script, f'"{{{{ {name} }}}}"'))
        remedy = f"give it as an argument after the code: `[{listed}]`"
    remedy = "whoever starts a run can have anything run here" if by == USER else remedy
    severity: Severity = "note" if by == USER else "error"
    return subject.problem(at, "text-as-code", message, remedy, severity=severity)


class _Texts(Value, frozen=True):
    """Who wrote the texts that the templates of a machine print."""

    subject: Subject
    given: Mapping[str, str] | None

    def wrote(self, state: str, text: str) -> Wrote | None:
        """Who wrote a part of what a template prints, and the name of that."""
        wrote = [(self.writer((state, path)), ".".join(path)) for path in printed_by(text)]
        return _worst(one for one in wrote if one[0])

    def writer(self, start: Node) -> str:
        """Who wrote what is found at a node; "" for nobody but the machine."""
        seen, waiting, found = {start}, [start], ""
        while waiting:
            step = self._follow(*waiting.pop())
            if not isinstance(step, str):
                waiting += [inner for inner in dict.fromkeys(reversed(step)) if inner not in seen]
                seen.update(step)
            elif step not in ("", USER):
                return step
            else:
                found = step or found
        return found

    def _follow(self, name: str, path: Path) -> str | list[Node]:
        """Who wrote what a state reads under a path, or the nodes from which that is made."""
        graph, (first, *rest) = self.subject.graph, path
        if name not in graph.states:
            agent, _, tool = name.partition(".")
            takes = graph.machine.agents[agent].callable_tools[tool].accepts
            return "" if _is_closed(takes, path) else f"the agent `{agent}`"
        state = graph.states[name]
        if first in state.item_lists:
            return [(name, (*steps, *rest)) for steps in state.item_lists[first]]
        if first == "artifact" and (judged := state.judges or graph.written.get(name)):
            return [(name, (judged, *rest))]
        if first == "prompt":
            told: list[Path] = [("artifact",), ("findings",)] if state.judges else [("feedback",)]
            return [(name, path) for path in (*told, *printed_by(state.work_template))]
        if first == "input":
            return self._of_input(rest)
        if first in graph.artifacts:
            return self._of_artifact(first, rest)
        if first in graph.states:
            by = graph.states[first]
            known = graph.machine.data_type(first)
            return "" if _is_word(by, rest) or _is_closed(known, rest) else _author(first, by)
        # Another machine may revise the first author of this one.
        first_author = graph.first_author if self.given is not None else ""
        if first == "feedback" and name not in graph.repeated and name != first_author:
            return ""
        own = [step for step in rest[first == "reports" :] if step != ITEMS]
        own = own[own[:1] == ["findings"] :]
        is_own = len(own) == 1 and own[0] in OWN_FIELDS and first != "previous"
        return "" if is_own else TOLD.get(first, "")

    def _of_input(self, rest: Sequence[str]) -> str:
        if _is_closed(self.subject.scope.input, rest):
            return ""
        if self.given is None:
            return USER
        writers = [by for name, by in self.given.items() if name in rest[:1] or not rest]
        return min(writers, key=lambda by: by == USER, default="")

    def _of_artifact(self, artifact: str, rest: Sequence[str]) -> str | list[Node]:
        made = list[Node]()
        states, machine = self.subject.states, self.subject.machine
        authors = self.subject.graph.artifacts[artifact]
        sources: list[tuple[str, object]] = [(name, states[name]) for name in authors]
        if artifact in machine.artifacts:
            # It is made of the input, whichever state reads that.
            sources.append((machine.start, machine.first_values[artifact]))
        for author, source in sources:
            if isinstance(source, MadeText | MadeData):
                parts = source.texts_at(rest)
                made += ((author, (*p, *inner)) for text, inner in parts for p in printed_by(text))
                continue
            state = states[author]
            known = machine.data_type(author) or state.leaves
            output = state.output_at(author)
            extracted = output.fields if output is not None else {}
            is_word = _is_word(state, rest) and rest[0] not in extracted
            if rest and output is not None:
                counted = isinstance(extracted.get(rest[0]), ExtractCount)
                is_word = is_word or counted or ("digest" == rest[0] in output.beside)
            if author in self.subject.loaded.children:
                is_word = is_word or self._is_own_of_child(author, rest)
            # A faulty answer is a text whatever its schema says.
            if not (rest and (is_word or _is_closed(known, rest))):
                return _author(author, state)
        editing = next((name for name, one in states.items() if one.edits == artifact), None)
        return _author(editing, states[editing]) if editing and not rest else made

    def _is_own_of_child(self, name: str, rest: Sequence[str]) -> bool:
        """Whether another machine writes a part of its results itself, whatever it is given."""
        steps = rest[isinstance(self.subject.graph.states[name], EachState) :]
        child = Subject.of(self.subject.loaded.children[name])
        if [*steps[:1]] != ["result"] or not child.graph.artifacts.keys() & {*steps[1:2]}:
            return False
        given = dict.fromkeys(child.machine.input, name)
        return not _Texts(child, given).writer((child.machine.start, (*steps[1:],)))


def _is_word(state: State, rest: Sequence[str]) -> bool:
    """Whether a part of what a state leaves is a number, or a word of the machine."""
    if state.child is not None:
        return rest[1 if isinstance(state, EachState) else 0 :] == ["outcome"]
    return rest in (["choice"], ["exit_code"]) and rest[0] in state.said


def _author(name: str, state: State) -> str:
    agents = " or ".join(f"the agent `{agent}`" for agent in state.asks)
    return agents or (f"a person at `{name}`" if state.waits else f"the work of `{name}`")


def _is_closed(known: DataType | None, steps: Iterable[str] = ()) -> bool:
    """Whether data at a path in a type holds nothing but numbers and words that are declared."""
    known = known and known.at(steps)
    if known is None:
        return False
    if known.fields is not None:
        is_open = known.is_open or known.others is not None
        return not is_open and all(map(_is_closed, known.fields.values()))
    if known.items is not None:
        return _is_closed(known.items)
    return known.scalar in ("int", "num", "bool") or bool(known.values)
