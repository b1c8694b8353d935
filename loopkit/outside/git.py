"""Git as a tool of ours: it obeys nobody's configuration and starts no program.

It is asked for three things: objects, in a repository of our own (`journal/contents.py`); what it
ignores in a folder; and worktrees of a user's repository.
"""

from __future__ import annotations

import atexit
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from loopkit.outside.processes import command_environment

OLDEST = (2, 38)
SECONDS = 60
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.quotePath": "false",
    # Names that other systems reserve are names like any other in a repository of our own.
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    # No program of the repository is started, so it does not matter who owns it.
    "safe.directory": "*",
    "core.fsync": "all",
    "gc.auto": "0",
    "fastimport.unpackLimit": "100",
    "core.bigFileThreshold": "10m",
}
COMMAND = ("git", *(word for name, at in _SETTINGS.items() for word in ("-c", f"{name}={at}")))
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "loopkit",
    "GIT_AUTHOR_EMAIL": "loopkit",
    "GIT_COMMITTER_NAME": "loopkit",
    "GIT_COMMITTER_EMAIL": "loopkit",
    "LC_ALL": "C",
}


class NoGit(Exception):
    """Git gave no answer: it is missing, too old or too slow, or the folder is in no repository."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that git gets: none of the caller's own `GIT_*`."""
    return command_environment(extra={**_VARIABLES, **(extra or {})})


def ask_git(
    folder: bytes | Path,
    *arguments: str | bytes | Path,
    stdin: bytes = b"",
    ok: Iterable[int] | None = None,
    extra: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """The output of git in a folder; raises NoGit if it can't be started or is too slow.

    With `ok` also for any other exit code, with what git printed.
    """
    try:
        result = subprocess.run(  # noqa: S603 - git, and nothing that anybody wrote
            (*COMMAND, *arguments),
            cwd=folder,
            env=environment(extra),
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoGit(f"`git` gave no answer: {error}") from error
    if ok is not None and result.returncode not in ok:
        said = result.stderr.decode(errors="replace").strip()
        raise NoGit(f"`git {os.fsdecode(arguments[0])}`: {said}")
    return result


@cache
def require_git() -> str:
    """What git says of its version; raises NoGit unless it can keep folders."""
    remedy = f"install git {OLDEST[0]}.{OLDEST[1]} or newer, with which folders are kept"
    try:
        said = ask_git(b"/", "version").stdout.decode()
    except NoGit as error:
        raise NoGit(f"{error}; {remedy}") from error
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise NoGit(f"this is {said.strip()!r}; {remedy}")
    return said.strip()


class IgnoreRules:
    """What git ignores below a folder, by the ignore files there and what is tracked."""

    def __init__(self, top: bytes, here: bytes, index: str, excluded: str) -> None:
        self._top = top
        """The folder whose ignore files count."""
        self._here = here
        """The folder that stands for it; they differ where the latter is a copy."""
        self._variables = {"GIT_DIR": _no_repository(), "GIT_WORK_TREE": os.fsdecode(top)}
        self._variables["GIT_INDEX_FILE"] = index or f"{_no_repository()}/index"
        self._excluded = f"core.excludesFile={excluded or '/dev/null'}"

    @classmethod
    def around(cls, origin: bytes, here: bytes) -> IgnoreRules | None:
        """Those of the repository in which `origin` is; None if there is none, or it ignores all.

        `here` is the folder that stands for `origin`.
        """
        real = os.path.realpath(origin)
        above = (real, *(os.fsencode(folder) for folder in Path(os.fsdecode(real)).parents))
        if not any(os.path.lexists(os.path.join(folder, b".git")) for folder in above):
            has_rules = os.path.lexists(os.path.join(real, b".gitignore"))
            return cls(real, here, "", "") if has_rules else None
        asked = ("--show-toplevel", "--show-prefix", "--git-path", "index")
        try:
            words = ("rev-parse", *asked, "--git-path", "info/exclude")
            top, prefix, *paths = ask_git(real, *words, ok=(0,)).stdout.splitlines()
        except (NoGit, ValueError):
            return None
        index, excluded = (os.fsdecode(os.path.join(real, path)) for path in paths)
        stands_for_top = os.path.normpath(os.path.join(here, *[b".."] * prefix.count(b"/")))
        rules = cls(top, stands_for_top, index, excluded)
        return None if prefix and rules.find((here,)) else rules

    def find(self, paths: Sequence[bytes]) -> frozenset[bytes]:
        named = {self._name(path): path for path in paths}
        if not named:
            return frozenset()
        asked = ("-c", self._excluded, "check-ignore", "-z", "--stdin")
        stdin = b"".join(name + b"\0" for name in named)
        try:
            answer = ask_git(self._top, *asked, stdin=stdin, ok=(0, 1), extra=self._variables)
        except NoGit:
            return frozenset()
        return frozenset(named[name] for name in answer.stdout.split(b"\0") if name in named)

    def _name(self, path: bytes) -> bytes:
        """A path as git is asked for it; of a folder that is not at the top, something in it."""
        name = os.path.relpath(path, self._here)
        is_new = not os.path.lexists(os.path.join(self._top, name))
        return os.path.join(name, b"any") if is_new and is_real_folder(path) else name


def is_real_folder(path: bytes) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH114 - bytes


CACHES = (
    ".loopkit",
    # A file that is about to be renamed.
    ".loopkit-????????????????",
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
    "node_modules",
)
"""What programs write for themselves, by name; it does not count unless git tracks it."""


@cache
def _no_repository() -> str:
    """A repository without anything in it: no configuration of anybody's, and our caches."""
    folder = Path(mkdtemp(prefix="loopkit-git-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "info/exclude").write_text("".join(f"{name}\n" for name in CACHES))
    return str(folder)
