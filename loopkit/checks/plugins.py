"""`unknown-plugin`: a plug-in or a tool that is not installed.

Its files are read, never imported or run.
"""

from __future__ import annotations

import importlib
import importlib.util
import symtable
import sys
import tokenize
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import PythonRule, PythonTool


def check_plugins(subject: Subject) -> Iterator[Problem]:
    """The entry point, or the module and the function, of each `python:` rule; for a tool, the
    module and the function."""
    for placed in subject.rules_of(PythonRule):
        path = (*placed.path, "python")
        if placed.rule.is_entry_point:
            yield from _check_entry_point(subject, path, placed.rule.python)
        else:
            yield from _check_function(subject, path, placed.rule.python, placed.rule.folder)
    for tool_path, tool in subject.tools_of(PythonTool):
        yield from _check_function(subject, (*tool_path, "python"), tool.python, tool.folder)


def _check_entry_point(subject: Subject, path: DocPath, name: str) -> Iterator[Problem]:
    from loopkit.plugins import ENTRY_POINTS  # noqa: PLC0415 - few rules name one

    offered = sorted({point.name for point in entry_points(group=ENTRY_POINTS)})
    if name not in offered:
        remedy = did_you_mean(name, offered)
        remedy = remedy or "install the package that offers it, or write `module:function`"
        message = f"no installed package offers the plug-in `{name}`"
        yield subject.source.problem(path, "unknown-plugin", message, help=remedy)


def _check_function(
    subject: Subject, path: DocPath, name: str, folder: str | None
) -> Iterator[Problem]:
    module, _, function = name.partition(":")
    spec = _spec(module, folder)
    if spec is None:
        message = f"there is no module `{module}`"
        remedy = "put it beside the machine file, name its `folder:`, or install its package"
        if module.endswith(".py"):
            remedy = f"write `{module.removesuffix('.py')}:{function}`"
        yield subject.source.problem(path, "unknown-plugin", message, help=remedy)
    elif spec.origin is not None and spec.origin.endswith(".py"):
        yield from _check_binding(subject, path, Path(spec.origin), name)


def _spec(module: str, folder: str | None) -> ModuleSpec | None:
    """The spec of a module beside the machine file or installed, without importing its package."""
    importlib.invalidate_caches()
    head, *rest = module.split(".")
    spec = PathFinder.find_spec(head, [folder]) if folder is not None else None
    if spec is None:
        spec = sys.modules[head].__spec__ if head in sys.modules else _find_spec(head)
    for step in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(step, list(spec.submodule_search_locations))
    return spec


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _check_binding(subject: Subject, path: DocPath, file: Path, name: str) -> Iterator[Problem]:
    """A problem if the text of a module does not bind a name; `import *` may bind any."""
    module, _, function = name.partition(":")
    try:
        with tokenize.open(file) as stream:
            text = stream.read()
        bound = _bound(text, file.name)
    except (OSError, SyntaxError, ValueError) as error:
        message = f"the module `{module}` can't be read: {error}"
        yield subject.source.problem(path, "unknown-plugin", message, help="correct the module")
        return
    if function not in bound and "import *" not in text and "__getattr__" not in bound:
        message = f"the module `{module}` has no function `{function}`"
        remedy = did_you_mean(function, sorted(bound)) or "define it, or name another one"
        yield subject.source.problem(path, "unknown-plugin", message, help=remedy)


def _bound(text: str, name: str) -> set[str]:
    """The names that a module binds itself."""
    symbols = symtable.symtable(text, name, "exec").get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
