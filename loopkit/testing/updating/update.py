"""Updates of a scenario file: its expectations replaced by what the runs do now."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopkit.document import read, replace_file
from loopkit.document.document import DocPath
from loopkit.scenario import Expect
from loopkit.testing.playing import play
from loopkit.testing.suites import Suite
from loopkit.testing.trace import Trace, trace
from loopkit.testing.updating.new_values import changes, is_guarded
from loopkit.testing.updating.yaml_edits import Edit, NotWritten, YamlEditor, apply_edits


@dataclass
class Update:
    """The changes of a scenario file."""

    suite: Suite
    edits: list[Edit] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)
    """By case: what differs but is kept, because the case was not named."""
    left: list[str] = field(default_factory=list)
    """What can't be changed, each with its place and the reason."""

    @property
    def text(self) -> str:
        """The new text of the file; only the expectations of these cases differ."""
        document = self.suite.source.document
        return apply_edits(document.text, self.edits)

    @property
    def diff(self) -> str:
        """The changes as a unified diff."""
        before = self.suite.source.document.text.splitlines(keepends=True)
        file = str(self.suite.path)
        lines = difflib.unified_diff(before, self.text.splitlines(keepends=True), file, file)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def write(self) -> None:
        """Change the file; raises NotWritable, and NotWritten where more would change."""
        text, document = self.text, self.suite.source.document
        after = read(text, document.file).plain()
        if _without_expectations(after) != _without_expectations(document.plain()):
            raise NotWritten(f"`{self.suite.path}` would change in more than its expectations")
        raw = self.suite.path.read_bytes()
        mark = "\ufeff" if raw.startswith(b"\xef\xbb\xbf") else ""
        replace_file(self.suite.path, mark + text)


def update(suite: Suite, cases: Collection[str], named: Collection[str]) -> Update:
    """Update what the cases expect and their runs no longer do; in `named` cases, all of it."""
    result = Update(suite)
    editor = YamlEditor(suite.source.document)
    for case in cases:
        _update_case(result, editor, case, is_named=case in named)
    return result


def _update_case(update: Update, editor: YamlEditor, case: str, *, is_named: bool) -> None:
    suite, at = update.suite, ("cases", case, "expect")
    if unwritten := suite.unwritten[case]:
        update.left.append(f"{case}: {unwritten[0].message}")
        return
    run = play(suite, case)
    if missing := [*run.unprepared, *([run.refused.reason] if run.refused else ())]:
        update.left.append(f"{case}: {missing[0]}; prepare it first")
        return
    done = trace(suite.machine.machine, run)
    expect = suite.case(case).expect
    if expect is None or expect.is_empty:
        with _note_not_written(update, case):
            _fill(update, editor, case, done, is_named=is_named)
        return
    for path, value in _changes_to_make(update, case, done, expect, is_named=is_named):
        with _note_not_written(update, case):
            if (included := suite.source.included.get((*at, *path))) is not None:
                key = ".".join(map(str, ("expect", *path)))
                raise NotWritten(f"`{key}` stands in `{included.file}`; change it there")
            update.edits += editor.edits((*at, *path), value)


@contextmanager
def _note_not_written(update: Update, case: str) -> Iterator[None]:
    """Note once what can't be changed; the rest of the case is changed all the same."""
    try:
        yield
    except NotWritten as error:
        message = f"{case}: {error}"
        if message not in update.left:
            update.left.append(message)


def _fill(update: Update, editor: YamlEditor, case: str, done: Trace, *, is_named: bool) -> None:
    """Fill an empty `expect:` with outcome and path."""
    if not is_named:
        update.kept[case] = ["outcome", "path"]
        return
    if "expect" not in update.suite.case(case).model_fields_set:
        raise NotWritten(
            "it has no `expect:`; write the key, and its outcome and path are filled in"
        )
    value = {"outcome": done.outcome, "path": list(done.path)}
    update.edits.append(editor.fill_mapping(("cases", case, "expect"), value))


def _changes_to_make(
    update: Update, case: str, done: Trace, expect: Expect, *, is_named: bool
) -> Iterator[tuple[DocPath, Any]]:
    proposed = list(changes(done, expect))
    for path, value in proposed:
        if is_guarded(path, expect) and not is_named:
            update.kept.setdefault(case, []).append(".".join(map(str, path)))
        else:
            yield path, value


def _without_expectations(plain: dict[str, Any]) -> dict[str, Any]:
    cases = {
        name: {key: value for key, value in case.items() if key != "expect"}
        for name, case in plain["cases"].items()
    }
    return {**plain, "cases": cases}
