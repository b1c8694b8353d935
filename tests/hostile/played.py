"""One hostile input, and what the command line makes of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.called import called, run_id, undocumented
from tests.hostile.forked import worked
from tests.hostile.harm import Harm
from tests.hostile.interrupted import Signals, interrupted

MOST_SAID = 20_000
"""Characters that a command may print besides what it was given."""


@dataclass(frozen=True)
class Hostile:
    """Files in a folder, and the commands to call there."""

    kind: str
    files: Mapping[str, str | bytes]
    calls: Sequence[Sequence[str]]
    stdin: str = ""
    harm: Harm | None = None
    """What happens to the journal after the first call."""
    signals: Signals = ()
    """What the first call gets; it is resumed to its end then."""
    granted_s: float = 0.0
    """What it may take longer, because its patterns may."""


def play(hostile: Hostile, deadline_s: float) -> str:
    """What is wrong with how the commands went; nothing where all is well."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        try:
            _write(hostile)
            if hostile.signals:
                return interrupted(hostile.calls[0], hostile.signals, deadline_s)
            return _played(hostile, deadline_s + hostile.granted_s)
        finally:
            os.chdir(before)


def _played(hostile: Hostile, deadline_s: float) -> str:
    run = ""
    for number, call in enumerate(hostile.calls):
        before_s = worked()
        wrong = _called(hostile, [run if part == "RUN" else part for part in call])
        if (spent_s := worked() - before_s) > deadline_s:
            wrong = wrong or f"it took {spent_s:.1f} s"
        if wrong:
            return f"{' '.join(call)[:200]}: {wrong}"
        if number == 0:
            run = run_id()
            if hostile.harm is not None:
                hostile.harm.happens(Path.cwd())
    return ""


def _write(hostile: Hostile) -> None:
    for name, content in hostile.files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
        path.write_bytes(data)


def _called(hostile: Hostile, call: Sequence[str]) -> str:
    code, said = called(call, hostile.stdin)
    if wrong := undocumented(code, said):
        return wrong
    given = sum(map(len, hostile.files.values()))
    # Events hold prompts and conversations, each of which quotes what was given.
    quoted = 20 if "jsonl" in call or "logs" in call else 3
    if len(said) > MOST_SAID + quoted * given:
        return f"it said {len(said):,} characters, from {given:,}"
    return ""
