"""The input of a run, from files and from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from loopkit.cli.files import read_stdin, read_text
from loopkit.cli.terminal import USAGE, Stop
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import data_of
from loopkit.language.input_faults import InputFault, InvalidInput
from loopkit.language.machine import Machine
from loopkit.machine.inputs import complete_input, partial_input
from loopkit.text.json_text import NoJson, parse_json

_option = click.option
YAML = (".yaml", ".yml")


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-i`, `--set` and `--set-json`."""
    for option in (
        _option(
            "--set-json", "set_json", multiple=True, metavar="K=JSON", help="One input, as JSON."
        ),
        _option(
            "--set",
            "sets",
            multiple=True,
            metavar="K=V",
            help="One input. K=@FILE reads it from a file.",
        ),
        _option(
            "-i", "--input", "input_file", metavar="FILE|-", help="A YAML or JSON file with inputs."
        ),
    ):
        function = option(function)
    return function


def read_inputs(
    machine: Machine, input_file: str | None, sets: Iterable[str], set_json: Iterable[str]
) -> dict[str, Any]:
    """The complete input of a run, defaults included; raises Stop with everything that is wrong."""
    given = inputs_from_options(parse_record(machine.input), input_file, sets, set_json)
    return _fill(complete_input, machine, given)


def partial_inputs(
    machine: Machine, input_file: str | None, sets: Iterable[str], set_json: Iterable[str]
) -> dict[str, Any]:
    """The given inputs with defaults; none is required; raises Stop."""
    given = inputs_from_options(parse_record(machine.input), input_file, sets, set_json)
    return _fill(partial_input, machine, given)


def inputs_without_defaults(
    machine: Machine, input_file: str | None, sets: Iterable[str], set_json: Iterable[str]
) -> dict[str, Any]:
    """The given inputs without the defaults of others; raises Stop."""
    given = inputs_from_options(parse_record(machine.input), input_file, sets, set_json)
    filled = _fill(partial_input, machine, given)
    return {name: filled[name] for name in given}


def _fill(
    fill: Callable[[Machine, dict[str, Any]], dict[str, Any]],
    machine: Machine,
    given: dict[str, Any],
) -> dict[str, Any]:
    try:
        return fill(machine, given)
    except InvalidInput as error:
        lines = (f"error: {fault.message}{_remedy(fault)}" for fault in error.faults)
        raise Stop(USAGE, "\n".join(lines)) from error


def _remedy(fault: InputFault) -> str:
    return f"; add `--set {fault.missing}=…`" if fault.missing else ""


def inputs_from_options(
    datatype: DataType,
    input_file: str | None,
    sets: Iterable[str],
    set_json: Iterable[str],
    option: str = "--set",
) -> dict[str, Any]:
    """The inputs on the command line, each text converted to its field's type."""
    given: dict[str, Any] = _from_file(input_file) if input_file else {}
    for written in sets:
        path, value = _split(written, option)
        is_file = value.startswith("@")
        text = _text_of(value[1:]) if is_file else value
        _put(given, path, _as_type(text, datatype.at(path), value[1:] if is_file else ""))
    for written in set_json:
        path, value = _split(written, "--set-json")
        data = parse_json(value)
        if isinstance(data, NoJson):
            raise Stop(USAGE, f"error: `--set-json {path[0]}=…` is not JSON: {data.reason}")
        _put(given, path, data)
    return given


def _from_file(name: str) -> dict[str, Any]:
    from loopkit.document.reading import read, read_file

    document = read(read_stdin(), "<stdin>") if name == "-" else read_file(Path(name), name)
    plain = document.plain()
    return plain if isinstance(plain, dict) else {}


def _split(written: str, option: str) -> tuple[list[str], str]:
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        raise Stop(USAGE, f"error: `{option} {written}` is not of the form `name=value`")
    return key.strip().removeprefix("input.").split("."), value


def _text_of(name: str) -> str:
    return read_stdin() if name == "-" else read_text(Path(name))


def _as_type(text: str, datatype: DataType | None, file: str = "") -> object:
    """A text from the command line as its field's type; else unchanged for `conform` to report."""
    if datatype is None or datatype.scalar == "str":
        return text
    if file.endswith(YAML):
        return data_of(text, file)
    data = parse_json(text)
    return text if isinstance(data, NoJson) else data


def _put(given: dict[str, Any], path: list[str], value: object) -> None:
    for part in path[:-1]:
        inner = given.setdefault(part, {})
        if not isinstance(inner, dict):
            raise Stop(USAGE, f"error: `{'.'.join(path)}`: `{part}` is not a mapping")
        given = inner
    given[path[-1]] = value
