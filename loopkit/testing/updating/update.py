"""Updates of a scenario file: its expectations replaced by what the runs do now."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopkit.document import read, replace_file
from loopkit.language.load import DocPath
from loopkit.scenario import Expect
from loopkit.testing.playing import play
from loopkit.testing.suites import Suite
from loopkit.testing.trace import Trace, trace
from loopkit.testing.updating.new_values import changes, is_guarded
from loopkit.testing.updating.yaml_edits import Edit, NotWritten, YamlEditor, apply_edits


@dataclass
class Update:
    """What would change in a scenario file."""

    suite: Suite
    edits: list[Edit] = field(default_factory=list)
    kept: dict[str, list[str]] = field(default_factory=dict)
    """By case: what differs and is left as it is, because the case was not named."""
    left: list[str] = field(default_factory=list)
    """What can't be changed here, each with its place and the reason."""

    @property
    def text(self) -> str:
        """The file as it would be; only what these cases expect is another."""
        document = self.suite.source.document
        return apply_edits(document.text, self.edits)

    @property
    def diff(self) -> str:
        """What would change, as a unified diff."""
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
    """What the cases expect and their runs do not do any more; of `named` ones, all of it."""
    made = Update(suite)
    editor = YamlEditor(suite.source.document)
    for case in cases:
        _update_case(made, editor, case, is_named=case in named)
    return made


def _update_case(made: Update, editor: YamlEditor, case: str, *, is_named: bool) -> None:
    suite, at = made.suite, ("cases", case, "expect")
    if left := suite.unwritten[case]:
        made.left.append(f"{case}: {left[0].message}")
        return
    run = play(suite, case)
    if missing := [*run.unprepared, *([run.refused.reason] if run.refused else ())]:
        made.left.append(f"{case}: {missing[0]}; prepare it first")
        return
    done = trace(suite.machine.machine, run)
    expect = suite.case(case).expect
    if expect is None or expect.is_empty:
        with _left(made, case):
            _fill(made, editor, case, done, is_named=is_named)
        return
    for path, value in _allowed(made, case, done, expect, is_named=is_named):
        with _left(made, case):
            if (included := suite.source.included.get((*at, *path))) is not None:
                key = ".".join(map(str, ("expect", *path)))
                raise NotWritten(f"`{key}` stands in `{included.file}`; change it there")
            made.edits += editor.edits((*at, *path), value)


@contextmanager
def _left(made: Update, case: str) -> Iterator[None]:
    """What can't be changed is told once; the rest of the case is changed all the same."""
    try:
        yield
    except NotWritten as error:
        told = f"{case}: {error}"
        if told not in made.left:
            made.left.append(told)


def _fill(made: Update, editor: YamlEditor, case: str, done: Trace, *, is_named: bool) -> None:
    """Outcome and path for an `expect:` with nothing in it."""
    if not is_named:
        made.kept[case] = ["outcome", "path"]
        return
    if "expect" not in made.suite.case(case).model_fields_set:
        raise NotWritten(
            "it has no `expect:`; write the key, and its outcome and path are filled in"
        )
    value = {"outcome": done.outcome, "path": list(done.path)}
    made.edits.append(editor.fill_mapping(("cases", case, "expect"), value))


def _allowed(
    made: Update, case: str, done: Trace, expect: Expect, *, is_named: bool
) -> Iterator[tuple[DocPath, Any]]:
    proposed = list(changes(done, expect))
    for path, value in proposed:
        if is_guarded(path, expect) and not is_named:
            made.kept.setdefault(case, []).append(".".join(map(str, path)))
        else:
            yield path, value


def _without_expectations(plain: dict[str, Any]) -> dict[str, Any]:
    cases = {
        name: {key: value for key, value in case.items() if key != "expect"}
        for name, case in plain["cases"].items()
    }
    return {**plain, "cases": cases}
