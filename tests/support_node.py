"""Packages of npm for the tests: installed once, outside the tree, for every worker of pytest."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).parent / "node"
REQUIRED = os.environ.get("LOOPKIT_REQUIRE_NODE") == "1"
"""Whether a test that needs node fails where there is none; without this it is skipped."""
INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=5")
INSTALL_SECONDS = 600
RUN_SECONDS = 300


def node_folder() -> Path:
    """A folder with `node_modules` in it, as `tests/node/package-lock.json` has them."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            _without(f"`{program}` is not installed")
    lock = (NODE / "package-lock.json").read_bytes()
    folder = _cache() / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(folder)
    return folder


def run_node(script: str, given: Any) -> Any:
    """What a script of `tests/node` prints as JSON for JSON on its standard input."""
    folder = node_folder()
    # Node looks for packages beside the script and above it, so a copy goes to the packages.
    text = (NODE / script).read_bytes()
    copy = folder / f"{hashlib.sha256(text).hexdigest()[:16]}-{script}"
    _put(copy, text)
    done = subprocess.run(
        ["node", copy], input=json.dumps(given), cwd=folder,
        capture_output=True, encoding="utf-8", timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "loopkit-tests"


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        _put(folder / name, (NODE / name).read_bytes())
    done = subprocess.run(
        INSTALL, cwd=folder,
        capture_output=True, encoding="utf-8", timeout=INSTALL_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        _without(f"npm could not install the packages of tests/node: {done.stderr[-500:]}")
    (folder / "complete").touch()


def _put(path: Path, content: bytes) -> None:
    """Write a file at once, because another worker may be reading it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def _without(reason: str) -> None:
    if REQUIRED:
        pytest.fail(f"{reason}, and LOOPKIT_REQUIRE_NODE is set")
    pytest.skip(f"{reason}; set LOOPKIT_REQUIRE_NODE=1 to fail instead")
