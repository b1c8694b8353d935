"""pytest collects `*.scenario.yaml`: one test a case, and a failure at its line.

Everything else of loopkit is imported with the first such file, so that projects without any
do not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from loopkit.testing import CaseResult, Machines, Suite

SUFFIX = ".scenario.yaml"
MACHINES: pytest.StashKey[Machines] = pytest.StashKey()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    if not file_path.name.endswith(SUFFIX):
        return None
    collected: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return collected


class CaseFailed(Exception):
    """A case whose run is not as it expects."""

    def __init__(self, result: CaseResult) -> None:
        super().__init__(result.summary)
        self.result = result


class ScenarioFile(pytest.File):
    """The cases of one file."""

    def collect(self) -> Iterator[CaseItem]:
        from loopkit.document.problems import ProblemsFound
        from loopkit.document.reading import render_found
        from loopkit.testing import Machines, load_suite

        machines = self.session.stash.setdefault(MACHINES, Machines())
        here = Path.cwd()
        path = self.path.relative_to(here) if self.path.is_relative_to(here) else self.path
        try:
            suite = load_suite(path, machines)
        except ProblemsFound as found:
            raise self.CollectError(render_found(found.problems)) from found
        for name in suite.names:
            yield CaseItem.from_parent(self, name=name, suite=suite)


class CaseItem(pytest.Item):
    """One case."""

    def __init__(self, *, suite: Suite, **parts: Any) -> None:
        super().__init__(**parts)
        self._suite = suite

    def runtest(self) -> None:
        from loopkit.testing import run_case

        result = run_case(self._suite, self.name)
        if not result.passed:
            raise CaseFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CaseFailed):
            return excinfo.value.result.text
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._suite.line("cases", self.name) - 1, self.name
