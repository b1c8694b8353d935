"""loopkit: validate-and-revise loops with language models, declared and proven.

`from loopkit import load, check, plan, run, arun, start, resume, answer,
reply`: see docs/reference/python.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopkit.api import (
        AnswerRefused,
        InvalidInput,
        JournalError,
        NotDetermined,
        NotRunnable,
        ProblemsFound,
        Result,
        answer,
        arun,
        check,
        load,
        plan,
        reply,
        resume,
        run,
        start,
    )

__version__ = "0.1.0"
DISTRIBUTION = "loopkit-runner"
"""What to install; `loopkit` of the Python Package Index is somebody else's."""
__all__ = [
    "AnswerRefused",
    "InvalidInput",
    "JournalError",
    "NotDetermined",
    "NotRunnable",
    "ProblemsFound",
    "Result",
    "answer",
    "arun",
    "check",
    "load",
    "plan",
    "reply",
    "resume",
    "run",
    "start",
]


def __getattr__(name: str) -> Any:
    # With the first name that is asked for: the command line needs none of them to start.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("loopkit.api"), name)
