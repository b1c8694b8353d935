"""The scenario file of a recording, which is checked before anything is spent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from loopkit.document import NotWritable, read, refuse_unwritable, to_yaml
from loopkit.scenario import PARTS, LoadedScenario, load_file
from loopkit.scenario.cases import CaseName
from loopkit.testing.recording.case import NotRecordable
from loopkit.testing.suites import SUFFIX

NAME: TypeAdapter[str] = TypeAdapter(CaseName)


@dataclass(frozen=True)
class Target:
    """Where a recording goes."""

    path: Path
    machine: Path
    name: str | None = None
    """The name of the case; None for the id of the run."""
    known: LoadedScenario | None = None
    """The scenario that exists already."""

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
    if name in known.names:
        raise NotRecordable(f"`{known.source.document.file}` has a case `{name}` already")
    document = known.source.document
    last = document.span(("cases", known.names[-1]))
    column = document.span(("cases", known.names[-1]), key=True).column
    rows = document.text.splitlines(keepends=True)
    before, after = "".join(rows[: last.end_line]), "".join(rows[last.end_line :])
    ending = "\r\n" if "\r\n" in document.text else "\n"
    added = _comment_lines(comments, column - 1) + to_yaml({name: case}, column - 1)
    gap = "" if before.endswith("\n") else ending
    text = before + gap + ending + added.replace("\n", ending) + after
    _refuse_changed(known, text, name)
    return text


def _refuse_changed(known: LoadedScenario, text: str, name: str) -> None:
    """Raise NotRecordable where the added lines would change the rest of the file."""
    plain = read(text, known.source.document.file).plain()
    plain["cases"].pop(name)
    if plain != known.source.document.plain():
        file = known.source.document.file
        raise NotRecordable(f"no case can be added at the end of `{file}`; name another file")


def _comment_lines(comments: list[str], indent: int) -> str:
    return "".join(f"{' ' * indent}# {comment}\n" for comment in comments)
