"""One hostile input, and what the command line makes of it."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from loopkit.cli import invoke

CODES = frozenset({0, 1, 2, 3, 4, 5})
"""What a command may end with; 70 would be a bug of ours."""
MOST_SAID = 20_000
"""Characters that a command may print besides what it was given."""


@dataclass(frozen=True)
class Hostile:
    """Files in a folder, and the commands to call there."""

    kind: str
    files: Mapping[str, str | bytes]
    calls: Sequence[Sequence[str]]
    stdin: str = ""
    spoil: Mapping[str, bytes] = field(default_factory=dict)
    """After the first call: what is put over the start of every file of this name."""


def play(hostile: Hostile, deadline_s: float) -> str:
    """What is wrong with how the commands went; nothing where all is well."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        try:
            _write(hostile)
            for number, call in enumerate(hostile.calls):
                before_s = time.process_time()
                wrong = _called(hostile, call)
                if (spent_s := time.process_time() - before_s) > deadline_s:
                    wrong = wrong or f"it took {spent_s:.1f} s"
                if wrong:
                    return f"{' '.join(call)[:200]}: {wrong}"
                if number == 0:
                    _spoil(hostile)
        finally:
            os.chdir(before)
    return ""


def _write(hostile: Hostile) -> None:
    for name, content in hostile.files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
        path.write_bytes(data)


def _spoil(hostile: Hostile) -> None:
    for name, data in hostile.spoil.items():
        for path in Path.cwd().rglob(name):
            with path.open("r+b") as file:
                file.seek(min(100, path.stat().st_size // 2))
                file.write(data)


def _called(hostile: Hostile, call: Sequence[str]) -> str:
    out, err = io.StringIO(), io.StringIO()
    stdin = sys.stdin
    sys.stdin = io.StringIO(hostile.stdin)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = invoke([_run_id() if part == "RUN" else part for part in call])
    finally:
        sys.stdin = stdin
    said = out.getvalue() + err.getvalue()
    given = sum(map(len, hostile.files.values()))
    if code not in CODES:
        return f"exit code {code}: {said[-2000:]}"
    if "Traceback" in said or "internal error" in said:
        return f"a traceback: {said[-2000:]}"
    # Events hold prompts and conversations, each of which quotes what was given.
    quoted = 20 if "jsonl" in call or "logs" in call else 3
    if len(said) > MOST_SAID + quoted * given:
        return f"it said {len(said):,} characters, from {given:,}"
    return ""


def _run_id() -> str:
    """The run that the first call left."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        invoke(["runs", "ls"])
    lines = out.getvalue().splitlines()
    return lines[1].split()[0] if len(lines) > 1 else "none"
