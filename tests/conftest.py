"""Fixtures that many tests share."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from loopkit.agents.model.client import ready
from loopkit.outside.redaction import names_secret
from tests import warm
from tests.created import STORES, Opens
from tests.support import ROOT, CommandLine, Desk
from tests.support_browser import Browser, browser_program
from tests.support_postgres import url_of

ALSO_IN_POSTGRES = ("tests.test_cancel", "tests.test_program_waits", "tests.test_timed_out")

# The same examples each time: what fails here fails for everybody. With
# `--hypothesis-profile=search` there are ten times as many, and new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("search", deadline=None, max_examples=500)
settings.load_profile("repeatable")

OF_SOMEBODY = re.compile(
    r"LOOPKIT_(STATE|LOG|JOURNAL(_DIRECT)?)|OTEL_.*|(ANTHROPIC|OPENAI)_.*|GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX)"
    r"|CI|(NO|FORCE)_COLOR|COLUMNS|LINES"
    r"|PYTHONDONTWRITEBYTECODE"  # the many processes that tests start compile loopkit only once
)
"""Variables of whoever runs the tests, and on which what loopkit does depends."""

for name in [*os.environ]:
    if OF_SOMEBODY.fullmatch(name) or names_secret(name):
        del os.environ[name]
if any(name.lower().endswith("_proxy") for name in os.environ):
    # It leads to registries of packages, and not to the servers of tests.
    os.environ["no_proxy"] = "127.0.0.1,localhost"

WITH_LITELLM = (
    "tests/providers/",
    "tests/requirements/test_found_in_review.py",
    "tests/requirements/test_no_progress_of_programs.py",
    "tests/requirements/test_real_models.py",
    *(
        f"tests/test_{name}.py"
        for name in (
            "crash_http",
            "crash_kept",
            "crash_tools",
            "hostile",
            "kept_tools",
            "models",
            "new_claim",
            "price_list",
            "python",
            "rounds",
            "signals",
            "tool_attacks",
        )
    ),
)
"""Tests that share LiteLLM, which takes seconds to import, and servers that play providers."""
LONG = tuple(
    f"tests/test_{name}"
    for name in (
        "viewer", "crash", "readme", "diagram_mermaid", "editors", "hostile_texts",
        "journal_read_only", "large", "testing", "record", "progress",
        "bounds", "isolation", "json_schema", "mcp", "serve", "template",
    )
)  # fmt: skip
"""Tests that take long: what is begun last has to be short, or a worker ends alone."""


# There is little garbage and much that stays: 6,000 tests, and all that is imported. To go through
# it again and again was a tenth of the work.
gc.set_threshold(50_000, 20, 100)


SHARED_MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4_000_000_000
"""More than the files of all tests that run at once, and of those that failed."""


def pytest_configure() -> None:
    """Let tests write into memory where the system has such a folder: a process that is killed
    loses nothing there that it would keep on a disk, and nothing waits for a disk."""
    if not os.access(SHARED_MEMORY, os.W_OK):
        return
    system = os.statvfs(SHARED_MEMORY)
    if system.f_bavail * system.f_frsize > ENOUGH_BYTES and not system.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.pluginmanager.has_plugin("dsession"):
        warm.share()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is collected stays: nobody has to look for garbage in it, now or later."""
    gc.disable()
    try:
        # The process that only hands tests out collects none.
        if not session.config.pluginmanager.has_plugin("dsession"):
            _import_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Two workers more than there are cores: many tests wait for a process, a page or a server."""
    cores = yield
    return cores if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + 2


def _import_share(config: pytest.Config) -> None:
    """Import first what no other worker does: in a new clone each compiles a part of the tests."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    every = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    modules = sorted(path for given in config.args for path in Path(given).rglob("test_*.py"))
    for path in modules[number::every]:
        # What fails here fails again when it is collected, and pytest says so.
        with suppress(Exception):
            import_module(".".join(path.resolve().relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith((*WITH_LITELLM, *LONG)))


class Together(LoadScopeScheduling):
    """Hands all tests of a module to one worker: they share what is costly to make."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(WITH_LITELLM):
            return "with LiteLLM"
        module, _, test = nodeid.partition("::")
        if module.endswith("_browser.py"):
            return "in a browser"
        return f"{module} {test.partition('[')[2]}" if "crash" in module else module

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """As always, but forgets what is done: it would be counted anew for every test."""
        super().mark_test_complete(node, item_index, duration)
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    config.option.loadscopereorder = False  # the number of tests says little of their time
    return Together(config, log)


def pytest_runtest_teardown() -> None:
    """Let an import of LiteLLM end that a test began: hypothesis goes over what is imported."""
    for thread in threading.enumerate():
        if thread.name == "litellm":
            thread.join()


@pytest.fixture(scope="session")
def litellm() -> Any:
    """LiteLLM, imported as loopkit imports it."""
    return asyncio.run(ready())


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this worker; skips where the system has none."""
    browser = Browser(browser_program())
    yield browser
    browser.close()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line: `cli(2, "check", path).err`."""
    return CommandLine(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder that nobody has made yet."""
    return tmp_path / ".loopkit"


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    """Functions that open journals, each another one that is empty at first."""
    return (STORES[request.param](tmp_path / f"{number}" / ".loopkit") for number in count())


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test alone, in which its runs are stored."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".loopkit").mkdir()
    return tmp_path


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to play machines in, over a journal in memory."""
    return Desk(tmp_path)


@pytest.fixture
def durable(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    """A folder to play machines in, over a journal that outlives a process."""
    if request.param == "file":
        return Desk(tmp_path, in_memory=False)
    # Without a state folder, the project folder is the current one.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPKIT_JOURNAL", url_of(tmp_path))
    return Desk(tmp_path, in_memory=False, url=url_of(tmp_path))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Use a journal on disk, one in PostgreSQL too in some modules, and in the long form in all."""
    if "durable" in metafunc.fixturenames:
        marks = () if metafunc.module.__name__ in ALSO_IN_POSTGRES else (pytest.mark.long,)
        stores = ["file", pytest.param("postgres", marks=marks)]
        metafunc.parametrize("durable", stores, indirect=True)


@pytest.fixture(
    scope="module",
    params=[pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)],
)
def every(request: pytest.FixtureRequest) -> int:
    """At one of how many points a run is killed: at a third of them, and in the long form at each.

    A steady round commits twice, so that every third commit is now the one and now the other.
    """
    chosen: int = request.param
    return chosen


@pytest.fixture(params=[30, pytest.param(100, marks=pytest.mark.long)])
def at_once(request: pytest.FixtureRequest) -> int:
    """How many clients, calls or runs there are at the same time."""
    chosen: int = request.param
    return chosen
