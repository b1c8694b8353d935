"""Ids of runs, the names of their places in a family, and the command lines for them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from loopkit.text import one_line

BELOW = "/"
"""Between the id of a parent and the rest of a child's, which begins with it; no root has it."""
KEY_WIDTH = 40
BATCH_CHARS = 8
"""The length of a batch's digest in the ids of its runs."""
_OF_BATCH = re.compile(rf".+-[0-9a-f]{{{BATCH_CHARS}}}-[A-Za-z0-9_]+")


def root_of(run: str) -> str:
    """The root of the run's family: this run, or the ancestor that no other run began."""
    return run.partition(BELOW)[0]


def is_child(run: str) -> bool:
    return BELOW in run


def is_of_batch(run: str) -> bool:
    """Whether an id has the form of those of a batch, which end with the key of a line."""
    return _OF_BATCH.fullmatch(run) is not None


def batch_of(run: str) -> str:
    """The name of the batch whose run it is, else empty; a child is in that of its root."""
    return run.rpartition("-")[0] if is_of_batch(run) else ""


def ancestors_of(run: str) -> Iterator[str]:
    """The parent of a run, that one's parent, and so on."""
    while BELOW in run:
        run = run.rpartition(BELOW)[0]
        yield run


def place_of(state: str, key: str, within: str = "") -> str:
    """The place of a child in its parent: `tasks[1.2]`, or `review` if its state has only one."""
    item = f"{state}[{one_line(key, KEY_WIDTH)}]" if key else state
    return f"{within}{BELOW}{item}" if within else item


RESUME = "loopkit resume "
"""The start of each command line that resumes a run."""


def resume_line(run: str, *arguments: str) -> str:
    return RESUME + shlex.join([run, *arguments])


def delivery_line(run: str, *, is_left: bool) -> str:
    """The command line that delivers an artifact, from a file or from the workspace."""
    return shlex.join(["loopkit", "reply", run, *([] if is_left else ["FILE"])])
