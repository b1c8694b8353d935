"""One measurement: a fresh process, in a fresh folder."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envs import ROOT, Environment, child_variables

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Measured:
    """What a process found: its median loop and its CPU in µs a step, its commits a loop."""

    median_us: float
    cpu_us: float
    commits: int


def steps(env: Environment, peer: str, mode: str, loops: int, folder: Path) -> Measured:
    """The measurement of one peer in one mode; its files lie in `folder`, for its disk counts."""
    script = HERE / f"peer_{peer}.py"
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        argv = [str(env.python), str(script), mode, str(loops), fresh]
        done = subprocess.run(
            argv, cwd=fresh, env=child_variables(), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"{script.name} {mode} failed:\n{done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def cpu_ms(argv: Sequence[str]) -> float:
    """User and system time that a command takes to its end, in milliseconds."""
    child = subprocess.Popen(
        argv, cwd=ROOT, env=child_variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(argv)} failed with exit code {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000
