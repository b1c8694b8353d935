"""A family of runs → a case in a scenario file, with everything that it expects.

The file is checked before anything is spent, and the case is played once to check that it gives
the same events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read
from loopkit.document.writing import NotWritable, refuse_unwritable, replace_file, to_yaml
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.machine import Machine
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redact_data, redactor
from loopkit.scenario.cases import CaseName, LoadedScenario, load_file
from loopkit.scenario.script import CHILDREN, PARTS
from loopkit.testing.expecting import expectations_of
from loopkit.testing.judging import run_case
from loopkit.testing.playbill import by_state
from loopkit.testing.playing import ChildRun, FamilyRun, play
from loopkit.testing.suites import SUFFIX, Machines, Suite, load_suite
from loopkit.testing.tape import Tape, limit_names, read_tape
from loopkit.testing.trace import Difference, family_difference, trace
from loopkit.text import one_line
from loopkit.text.run_ids import place_of

Playing = TypeVar("Playing")
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'`]+@")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}")


@dataclass(frozen=True)
class Recording:
    path: Path
    case: str
    difference: Difference | None
    notes: tuple[str, ...] = ()
    """What no case can play of the run."""
    is_repaired: bool = False
    """Whether the run had several definitions: its case plays it with the last of them."""


def record(
    target: Target, program: Program, run: FamilyRun, machines: Machines | None = None
) -> Recording:
    """Write the case of a run into its file; raises NotRecordable, and then nothing is written.

    A replay that differs is written all the same, with a comment that says where. To record many
    runs, pass the same `machines` each time, so that each machine is checked once.
    """
    machines = machines or Machines()
    redact = _redactor_for(program.machine)
    state = run.state
    name = target.case_of(state.run)
    if state.repairs:
        return _record_repaired(target, program, run, redact, machines)
    case, notes = make_case(program, run, redact)
    comments = [f"Recorded from run {state.run}.", *(f"Not played: {note}." for note in notes)]
    text = target.text(name, case, comments)
    replayed = _play_beside(target.path, text, lambda suite: play(suite, name), machines)
    if (found := family_difference(run, replayed, redact)) is not None:
        comments.append(one_line(f"Its replay differs in {found}", 200))
        text = target.text(name, case, comments)
    _write(target.path, text)
    return Recording(target.path, name, found, tuple(notes))


def _record_repaired(
    target: Target, program: Program, run: FamilyRun, redact: Redact, machines: Machines
) -> Recording:
    """The case of a repaired run, which has to pass with the machine as it is now.

    The reason for the repair may stop the case as well, such as an unavailable model, or not, such
    as an exit code that had no meaning.
    """
    state, reason = run.state, ""
    name = target.case_of(state.run)
    for stops_again in (True, False):
        case, notes = make_case(program, run, redact, stops_again=stops_again)
        comments = [
            f"Recorded from run {state.run}, which was repaired, for the machine as it is now.",
            *(f"Not played: {note}." for note in notes),
        ]
        text = target.text(name, case, comments)
        result = _play_beside(target.path, text, lambda suite: run_case(suite, name), machines)
        if result.passed:
            _write(target.path, text)
            return Recording(target.path, name, None, tuple(notes), is_repaired=True)
        reason = reason or one_line(result.failures[0].problem.message, 200)
    raise NotRecordable(
        f"run `{state.run}` was repaired, and with the machine as it is now, its replies "
        f"lead to another path: {reason}; start a new run with this machine, and record that"
    )


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text)
    except NotWritable as error:
        raise NotRecordable(str(error)) from error


def _play_beside(
    path: Path, text: str, playing: Callable[[Suite], Playing], machines: Machines
) -> Playing:
    """Play a text in place of a file, and return the result; raises NotRecordable."""
    # In its folder, because its paths start there.
    folder = path.resolve().parent
    try:
        with NamedTemporaryFile(dir=folder, prefix=".", suffix=SUFFIX) as file:
            file.write(text.encode())
            file.flush()
            return playing(load_suite(Path(file.name), machines))
    except ProblemsFound as found:
        messages = "; ".join(problem.message for problem in found.problems[:3])
        raise NotRecordable(f"no case of `{path}` can play this run: {messages}") from found
    except OSError as error:
        raise NotRecordable(f"`{path}` can't be written: {error.strerror}") from error


def _redactor_for(machine: Machine) -> Redact:
    """A function that removes the environment's secrets, and the credentials in addresses."""
    redact = redactor(os.environ, machine.key_names)

    def clean(text: str) -> str:
        return _BEARER.sub(r"\1 [credentials]", _IN_ADDRESS.sub("[credentials]@", redact(text)))

    return clean


NAME: TypeAdapter[str] = TypeAdapter(CaseName)


@dataclass(frozen=True)
class Target:
    path: Path
    machine: Path
    name: str | None = None
    """The name of the case; None for the id of the run."""
    known: LoadedScenario | None = None

    def case_of(self, run: str) -> str:
        """The name of the case of a run; an id of a child has a `/`, which no name can have."""
        return self.name or run.replace("/", "-")

    def text(self, name: str, case: dict[str, Any], comments: list[str]) -> str:
        """The whole file with the case in it, the other cases as they are."""
        if self.known is None:
            machine = os.path.relpath(self.machine.resolve(), self.path.resolve().parent)
            named = Path(machine).as_posix()
            head = {"scenario": 1, "machine": named, "cases": {name: case}}
            *above, cases = to_yaml(head).split("cases:\n", 1)
            return "".join(above) + "cases:\n" + _comment_lines(comments, 2) + cases
        return _append_case(self.known, name, self._alone(case), comments)

    def _alone(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case, in which none of the parts that all cases share are played."""
        assert self.known is not None
        own = dict(case)
        for part in PARTS:
            shared: dict[str, Any] = {name: [] for name in self.known.plain.get(part, {})}
            if shared or part in own:
                own[part] = {**shared, **own.get(part, {})}
        expect = own.pop("expect", None)
        return {**own, "expect": expect} if expect is not None else own


def target(path: Path, machine: Path, name: str | None = None) -> Target:
    """A file that can take a recording; raises NotRecordable, and ProblemsFound for its content.

    It is a new file, or one with cases of the same machine, to which the case is added.
    """
    if not path.name.endswith(SUFFIX):
        message = f"`{path}`: a recording is called `NAME{SUFFIX}`, so that it is found as a test"
        raise NotRecordable(message)
    if not machine.is_file():
        raise NotRecordable(f"`{machine}` is not a machine file that a recording can use")
    try:
        if name is not None:
            NAME.validate_python(name)
        refuse_unwritable(path)
    except ValidationError as error:
        [wrong] = error.errors()
        raise NotRecordable(f"{wrong['msg']}: {wrong['ctx']['help']}") from error
    except NotWritable as error:
        raise NotRecordable(str(error)) from error
    known = load_file(path) if path.exists() else None
    if known is not None:
        _refuse_other(known, path, machine, name)
    return Target(path, machine, name, known)


def _refuse_other(known: LoadedScenario, path: Path, machine: Path, name: str | None) -> None:
    """Raise NotRecordable where the case can't be added to the existing file."""
    if known.scenario.machine is None:
        raise NotRecordable(f"`{path}` is a script without cases; name another file")
    tested = (known.folder / known.scenario.machine).resolve()
    if tested != machine.resolve():
        raise NotRecordable(
            f"`{path}` has cases of another machine, `{known.scenario.machine}`; name another file"
        )
    if name in known.names:
        raise NotRecordable(f"`{path}` has a case `{name}` already; name another one")
    cases = known.source.document.node(("cases",))
    if cases is None or cases.style != "block" or cases.used_at is not None:
        raise NotRecordable(f"`{path}` has its cases in brackets; write each on its own lines")


def _append_case(
    known: LoadedScenario, name: str, case: dict[str, Any], comments: list[str]
) -> str:
    document = known.source.document
    if name in known.names:
        raise NotRecordable(f"`{document.file}` has a case `{name}` already")
    last = document.span(("cases", known.names[-1]))
    column = document.span(("cases", known.names[-1]), key=True).column
    rows = document.text.splitlines(keepends=True)
    before = "".join(rows[: last.end_line])
    after = "".join(rows[last.end_line :])
    ending = "\r\n" if "\r\n" in document.text else "\n"
    added = _comment_lines(comments, column - 1) + to_yaml({name: case}, column - 1)
    gap = "" if before.endswith("\n") else ending
    text = before + gap + ending + added.replace("\n", ending) + after
    plain = read(text, document.file).plain()
    plain["cases"].pop(name)
    # The added lines may change the rest of the file.
    if plain != document.plain():
        where = f"at the end of `{document.file}`"
        raise NotRecordable(f"no case can be added {where}; name another file")
    return text


def _comment_lines(comments: list[str], indent: int) -> str:
    return "".join(f"{' ' * indent}# {comment}\n" for comment in comments)


ROUTE = ("outcome", "reason", "path", "verdicts", "revisions", "events")
"""The expectations of a repaired run: its route, not what an earlier definition said."""


def make_case(
    program: Program, run: FamilyRun, redact: Redact, *, stops_again: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """The case of a run, and notes on what it can't play; raises NotRecordable.

    It has no secret that `redact` knows. The case of a repaired run expects its route, and
    `stops_again` says whether it is suspended where it was repaired.
    """
    state = run.state
    refuse_unrecordable(state)
    tape, (parts, notes) = read_tape(program, run.events), family_parts(program, run)
    resumes = [r for n, r in enumerate(tape.resumes) if stops_again or n not in tape.mended]
    expectations = expectations_of(trace(program.machine, run), program.machine)
    if state.repairs:
        expectations = {key: expectations[key] for key in ROUTE if key in expectations}
    case = {
        "input": _input(state.input, parse_record(program.machine.input)),
        "limits": _limits(tape.limits),
        "resumes": [{"limits": _limits(r["limits"])} if r else {} for r in resumes],
        **parts,
        "expect": expectations,
    }
    kept = {key: value for key, value in case.items() if value}
    return redact_data(kept, redact), list(dict.fromkeys(notes))


def refuse_unrecordable(state: RunState) -> None:
    """Raise NotRecordable where a run is not at an end that a case can come to."""
    go_on = f"continue it with `loopkit resume {state.run}`, and then record it"
    if state.status == "cancelled":
        raise NotRecordable(f"run `{state.run}` was cancelled, which no case plays")
    if state.status == "suspended" and state.suspended is not None:
        if state.suspended.reason == "interrupted":
            raise NotRecordable(f"run `{state.run}` was interrupted; {go_on}")
    elif state.status not in ("finished", "waiting"):
        raise NotRecordable(f"run `{state.run}` is {state.status}; {go_on}")


def _input(given: Mapping[str, Any], datatype: DataType) -> dict[str, Any]:
    """The input without the defaults that the machine fills in."""
    kept = dict(given)
    for name in given:
        filled, faults = conform({k: v for k, v in kept.items() if k != name}, datatype)
        if not faults and filled == dict(given):
            del kept[name]
    return kept


def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {n: f"{limit:g}s" if n == "time" else limit for n, limit in limits.items()}


class NotRecordable(Exception):
    """A run that no case can play; the message says why and what to do."""


def family_parts(
    program: Program, run: FamilyRun, limited: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[str]]:
    """The parts of a run and of its children, and notes on what no scenario plays.

    `limited` are the limits of the runs around it. Raises NotRecordable.
    """
    limited |= limit_names(program, run.events)
    tape = read_tape(program, run.events, limited)
    parts = {
        # A list where an agent is asked at one place, else by place.
        "agents": {
            agent: places if len(places) > 1 else next(iter(places.values()))
            for agent, places in _replies_by_agent(tape).items()
        },
        "commands": {
            name: [result or {"exit_code": 0} for result in results]
            for name, results in tape.commands.items()
            if results
        },
        "answers": dict(tape.answers),
    }
    children, notes = _children(program, run, limited)
    said = {part: value for part, value in {**parts, CHILDREN: children}.items() if value}
    return said, [*tape.notes, *notes]


def _replies_by_agent(tape: Tape) -> dict[str, dict[str, list[Any]]]:
    """The replies of each agent at each place, in order; a reply with only a text is that text."""
    agents: dict[str, dict[str, list[Any]]] = {}
    for attempt in tape.attempts.values():
        calls = [call["reply"] if set(call) == {"reply"} else call for call in attempt.calls]
        places = agents.setdefault(attempt.agent, {})
        places.setdefault(attempt.place, []).append(calls[0] if len(calls) == 1 else calls)
    return agents


def _children(
    program: Program, run: FamilyRun, limited: frozenset[str]
) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []

    def parts_of_child(child: ChildRun) -> dict[str, Any]:
        if child.run.state.repairs:
            raise NotRecordable(
                f"run `{child.run.state.run}` was repaired, and no case plays a child by a "
                "definition of its own"
            )
        definition = program.children[child.state]
        of_child = Program(definition.machine, definition.digest)
        said, missing = family_parts(of_child, child.run, limited)
        if limit_names(of_child, child.run.events) - frozenset(of_child.limits):
            missing.append("its limits were raised, which no scenario plays")
        called = place_of(child.state, child.key)
        notes.extend(f"`{called}`: {note}" for note in missing)
        return said

    said = {child[:3]: parts_of_child(child) for child in run.children}
    return by_state(program.machine, said), notes
