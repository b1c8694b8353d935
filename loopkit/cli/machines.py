"""`loopkit ls`, `show` and `new`: the machines that can be named, one shown, one written anew."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopkit.cli import terminal
from loopkit.cli.inputs import journal_place, read_text
from loopkit.cli.terminal import OK, columns_of, examples, misuse
from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.document.reading import read_file, why_unread
from loopkit.document.writing import to_yaml
from loopkit.journal.files import is_unused
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.section import ID_PATTERN, as_id
from loopkit.project import FILE, machines_in, project, shipped_machines
from loopkit.text import printable

if TYPE_CHECKING:
    from loopkit.testing import Suite

UNLIMITED = 1_000_000
"""The columns of what is no terminal."""


@click.command(epilog=examples("loopkit ls"))
def ls_command() -> int:
    """List the machines that can be run by name: the project's, and those that loopkit has."""
    own, place = machines_in(project().machines), journal_place()
    shipped = {name: path for name, path in shipped_machines().items() if name not in own}
    formatter = click.HelpFormatter(width=columns_of(sys.stdout) or UNLIMITED)
    for heading, machines in (("Of this project", own), ("Of loopkit", shipped)):
        if machines:
            with formatter.section(heading):
                formatter.write_dl([(name, _sentence(path)) for name, path in machines.items()])
    terminal.echo(formatter.getvalue().rstrip())
    if isinstance(place, str) or not is_unused(place):
        terminal.say("\nruns are listed by: loopkit runs ls")
    return OK


def _sentence(path: Path) -> str:
    """The first one of a machine's description."""
    try:
        said = " ".join(str(read_file(path).plain().get("description") or "").split())
    except ProblemsFound as found:
        return f"can't be read: {why_unread(found)}; see `loopkit check {path}`"
    return printable(re.split(r"(?<=\.) ", said)[0])


@click.command(epilog=examples("loopkit show code_fix"))
@click.argument("machine", metavar="MACHINE")
def show_command(machine: str) -> int:
    """Print the file of MACHINE."""
    # The other commands here need no runs.
    from loopkit.cli.stored_runs import machine_or_run

    path = machine_or_run(machine)
    if isinstance(path, str):
        raise misuse(f"{path} is a run; show it with: loopkit runs show {path}")
    text = read_text(path)
    terminal.echo(printable(text) if columns_of(sys.stdout) else text, nl=False)
    return OK


FIRST = "release_notes"
SCHEMA_LINE = re.compile(r"^# yaml-language-server:.*\n", re.MULTILINE)
"""Names a schema by its path from the machines of loopkit."""
PROJECT = """\
# What is said here holds for this folder and those below; nothing of it changes a machine.
machines: machines    # where machines are found by name
state: .loopkit       # where runs are stored
# notify: [./notify.sh]    # started when a run waits, fails or ends, with the outcome as JSON
"""


@click.command(epilog=examples("loopkit new tea", "loopkit new repair --like code_fix"))
@click.argument("name")
@click.option(
    "--like", default=FIRST, show_default=True, metavar="NAME",
    help="The machine to begin with: one of those that `loopkit ls` lists as loopkit's.",
)  # fmt: skip
def new_command(name: str, like: str) -> int:
    """Write a machine NAME, its cases and a sample input, and where there is none a loopkit.yaml.

    The machine works at once; change it to what you need. No file is overwritten.
    """
    if not re.fullmatch(ID_PATTERN, name):
        example = as_id(name.removesuffix(".yaml"))
        told = f"a machine can't be called `{name}`: use lower case letters, digits and `_`"
        raise misuse(f"{told}; try `loopkit new {example}`")
    shipped = shipped_machines()
    if like not in shipped:
        raise misuse(f"loopkit has no machine `{like}`; {did_you_mean(like, shipped)}")
    # The other commands here load no machine.
    from loopkit.cli.machine import works_on_files
    from loopkit.scenario.cases import cases_of
    from loopkit.testing import load_suite

    folder, is_new = Path(os.path.relpath(project().machines)), not project().has_file
    written = _copies(shipped[like], folder, name)
    suite = load_suite(cases_of(shipped[like]))
    written |= _sample(suite, folder, name)
    if is_new:
        written[Path(FILE)] = PROJECT.encode()
    if there := [f"`{path}`" for path in written if os.path.lexists(path)]:
        told = f"already there: {', '.join(there)}; nothing was written"
        raise misuse(f"{told}: choose another name")
    for path, data in written.items():
        _write(path, data)
        terminal.say(f"written: {path}")
    terminal.say("\nIt passes these, which call nothing:")
    for command in ("check", "test", "plan"):
        terminal.say(f"  loopkit {command} {name}")
    run = f"  loopkit run {name} -i {folder / name}.input.yaml"
    # A case that is played leaves its files, as a run does.
    if not works_on_files(suite.machine.machine):
        terminal.say(f"{run} --case '{suite.names[0]}'")
    terminal.say(f"This asks what the machine names, which may cost something:\n{run}")
    return OK


def _copies(machine: Path, folder: Path, name: str) -> dict[Path, bytes]:
    """The files of a machine, its cases and its folder, as those of another name."""
    like = machine.stem
    # In paths alone: the same word may also name a state or an artifact.
    paths = re.compile(rf"(?<=folder: ){like}\b|(?<=[ '\"]){like}(?=/|(?:\.scenario)?\.yaml)")
    beside = [machine, machine.with_name(f"{like}.scenario.yaml")]
    inside = (path for path in sorted((machine.parent / like).rglob("*")) if path.is_file())
    copies: dict[Path, bytes] = {}
    for path in [*beside, *(one for one in inside if "__pycache__" not in one.parts)]:
        data = path.read_bytes()
        if path.suffix == ".yaml":
            data = paths.sub(name, SCHEMA_LINE.sub("", data.decode())).encode()
        relative = path.relative_to(machine.parent).as_posix()
        copies[folder / f"{name}{relative.removeprefix(like)}"] = data
    return copies


def _sample(suite: Suite, folder: Path, name: str) -> dict[Path, bytes]:
    """The input of a machine's first case in files, without what only has its default."""
    case = suite.names[0]
    given = suite.inputs[case]
    said = {**suite.written.scenario.input, **suite.case(case).input} or given
    datatype = parse_record(suite.machine.machine.input)
    sample: dict[str, Any] = {}
    files: dict[Path, bytes] = {}
    for key in said:
        known = datatype.field(key)
        sample[key] = given[key]
        if known is not None and known.is_file:
            path = folder / name / f"{key}.yaml"
            sample[key], files[path] = str(path), to_yaml(given[key]["data"]).encode()
    return {folder / f"{name}.input.yaml": to_yaml(sample).encode(), **files}


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise misuse(f"cannot write {path}: {error.strerror}") from error
