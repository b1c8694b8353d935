"""What a command line names: machines, the input of a run, a journal, files to read or write."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import click

from loopkit.cli.terminal import USAGE, Stop, gather, misuse, say
from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.document.reading import decode, read_bytes
from loopkit.document.writing import NotWritable, replace_file
from loopkit.language.datatypes.datatype import DataType, near_misses
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import OF_DATA, data_of
from loopkit.language.input_faults import MISSING, InvalidInput
from loopkit.language.json_schema import location_of
from loopkit.language.machine import Machine
from loopkit.machine.inputs import complete_input, partial_input
from loopkit.project import machine_named, machines_in, project, shipped_machines
from loopkit.text.json_text import NoJson, parse_json
from loopkit.values import Value

NAME = re.compile(r"\w[\w-]{0,99}")
SHIPPED = "loopkit.shipped"
"""The key under which a command keeps the machines of loopkit that it was given by name."""


class MachinePath(click.Path):
    """The path of a machine; a name without a file is one of the project's or of loopkit's own."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = str(value)
        # Only commands that take several paths take folders.
        is_folder = os.path.isdir(name) and (param is None or param.nargs == 1)
        if not NAME.fullmatch(name) or (os.path.lexists(name) and not is_folder):
            return super().convert(value, param, ctx)
        path = machine_named(name) or (Path(name) if is_folder else None)
        if path is None:
            known = {**machines_in(project().machines), **shipped_machines()}
            hint = did_you_mean(name, known)
            raise misuse(f"there is no file and no machine `{name}`; {hint}")
        if path.is_absolute():
            click.get_current_context().meta.setdefault(SHIPPED, set()).add(path)
        return path


def is_shipped(path: Path) -> bool:
    """Whether a machine was named as one that comes with loopkit, and so has no folder here."""
    return path in click.get_current_context().meta.get(SHIPPED, ())


PATH = click.Path(path_type=Path)
MACHINE = MachinePath(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
MOST_CHARACTERS = 50_000_000
"""The journal takes no more than this, and a device never ends."""


class Given(Value, frozen=True):
    """The inputs of a run, as a command line gives them."""

    input_file: str | None = None
    sets: Sequence[str] = ()
    set_json: Sequence[str] = ()


input_options = gather(
    "given",
    Given,
    click.option(
        "-i", "--input", "input_file", metavar="FILE|-", help="A YAML or JSON file with inputs."
    ),
    click.option(
        "--set", "sets", multiple=True, metavar="K=V",
        help="One input. K=@FILE reads it from a file.",
    ),
    click.option(
        "--set-json", "set_json", multiple=True, metavar="K=JSON", help="One input, as JSON."
    ),
)  # fmt: skip
Filled = Literal["complete", "defaults", "given"]
"""How much of an input is filled in: all that a run needs, what has a default, or nothing."""


def read_inputs(machine: Machine, given: Given, filled: Filled = "complete") -> dict[str, Any]:
    datatype = parse_record(machine.input)
    plain = inputs_from_options(datatype, given)
    for steps, meant in near_misses(_with_data(plain, datatype), datatype):
        place = location_of(("input", *steps))
        say(f"warning: no field is called `{place}`; did you mean `{meant}`?")
    try:
        if filled == "complete":
            return complete_input(machine, plain)
        inputs = partial_input(machine, plain)
    except InvalidInput as error:
        lines = []
        for fault in error.faults:
            remedy = f"; add `--set {fault.path}=…`" if fault.code == MISSING else ""
            known = datatype.at(fault.path.split("."))
            value = plain.get(fault.path)
            if known is not None and known.items is not None and isinstance(value, str):
                listed = json.dumps([part.strip() for part in value.split(",")])
                remedy = f"; write `--set-json '{fault.path}={listed}'`"
            lines.append(f"error: {fault.message}{remedy}")
        raise Stop(USAGE, "\n".join(lines)) from error
    return inputs if filled == "defaults" else {name: inputs[name] for name in plain}


def _with_data(given: dict[str, Any], datatype: DataType) -> dict[str, Any]:
    """What is given, and what stands in the files that are given by path, if that can be read."""
    known = dict(given)
    for name, field in (datatype.fields or {}).items():
        path = given.get(name, field.default)
        with suppress(ProblemsFound, OSError):
            if field.is_file and isinstance(path, str) and Path(path).is_file():
                known[name] = {"data": data_of(decode(read_bytes(Path(path), path), path), path)}
    return known


def inputs_from_options(datatype: DataType, given: Given, option: str = "--set") -> dict[str, Any]:
    """The inputs as data, of the types that their fields have, but not checked."""
    plain: dict[str, Any] = _from_file(given.input_file) if given.input_file else {}
    for written in given.sets:
        path, value = _split(written, option)
        known = datatype.at(path)
        if known is not None and known.is_file:
            value = value.removeprefix("@")
        file = value[1:] if value.startswith("@") else ""
        if value.startswith("@"):
            value = read_stdin() if file == "-" else read_text(Path(file))
        _put(plain, path, as_type(value, known, file))
    for written in given.set_json:
        path, value = _split(written, "--set-json")
        data = parse_json(value)
        if isinstance(data, NoJson):
            raise misuse(f"`--set-json {path[0]}=…` is not JSON: {data.reason}")
        _put(plain, path, data)
    return plain


def _from_file(name: str) -> dict[str, Any]:
    from loopkit.document.reading import read, read_file

    document = read(read_stdin(), "<stdin>") if name == "-" else read_file(Path(name), name)
    plain = document.plain()
    return plain if isinstance(plain, dict) else {}


def _split(written: str, option: str) -> tuple[list[str], str]:
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        raise misuse(f"`{option} {written}` is not of the form `name=value`")
    return key.strip().removeprefix("input.").split("."), value


def as_type(text: str, datatype: DataType | None, file: str = "") -> object:
    """A text as its field's type; else unchanged, for `conform` to report."""
    if datatype is None or datatype.scalar == "str" or datatype.is_file:
        return text
    if file and (file.endswith(OF_DATA) or not datatype.is_anything):
        return data_of(text, file)
    if file:
        return text
    data = parse_json(text)
    return text if isinstance(data, NoJson) else data


def _put(given: dict[str, Any], path: list[str], value: object) -> None:
    for part in path[:-1]:
        inner = given.setdefault(part, {})
        if not isinstance(inner, dict):
            raise misuse(f"`{'.'.join(path)}`: `{part}` is not a mapping")
        given = inner
    given[path[-1]] = value


def journal_place() -> Path | str:
    """The URL that is given with the command or in the environment, or else the state folder."""
    # Most commands have no journal, and need no database.
    from loopkit.journal.files import state_folder

    context = click.get_current_context(silent=True)
    url = context and context.find_root().params.get("journal")
    return journal_url(url) if url else state_folder()


def journal_url(url: str) -> str:
    """The URL of a journal; it is not told, because it may hold a password."""
    from loopkit.journal.files import is_url

    if not is_url(url):
        raise misuse(
            "a journal (`--journal`, `LOOPKIT_JOURNAL`) is given as "
            "`postgresql://HOST/DATABASE?schema=NAME`; a state folder by `LOOPKIT_STATE`"
        )
    return url


def read_text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise misuse(f"`{path}` can't be read: {reason}") from error
    if len(text) > MOST_CHARACTERS:
        raise misuse(f"`{path}` has more than {MOST_CHARACTERS:,} characters")
    return text


def read_stdin() -> str:
    try:
        text = sys.stdin.read()
        text.encode()  # Python may keep bytes that are not UTF-8 as halves of surrogate pairs
    except UnicodeError as error:
        raise misuse("stdin is not UTF-8 text") from error
    return text


def write(path: Path, data: bytes) -> None:
    """Write a file, as a whole or not at all where that can be; raises Stop."""
    try:
        if _is_replaced(path):
            replace_file(path, data)
        else:
            path.write_bytes(data)
    except (NotWritable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise misuse(f"cannot write {path}: {reason}") from error


def _is_replaced(path: Path) -> bool:
    """Whether another file may take its place: a pipe, a stream of ours, a second name and a
    stranger's file stay what they are."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return path.parent.is_dir()
    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
    return is_ours and os.access(path.resolve().parent, os.W_OK) and not _is_stream(found)


def _is_stream(found: os.stat_result) -> bool:
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(found, os.fstat(number)):
                return True
    return False
