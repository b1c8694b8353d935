"""Workers: modules of ours that do one piece of work in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from loopkit.outside.processes import command_environment


def worker_command(module: str) -> tuple[str, ...]:
    """The command that starts a module, without bytecode.

    The working folder is not on its module path, because an agent may write there.
    """
    return (sys.executable, "-P", "-B", "-X", "utf8", "-m", module)


def worker_environment(allow: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: this process's module path, harmless and allowed variables.

    Texts are hashed alike in each, so that sets have one order.
    """
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    return command_environment(allow, {"PYTHONPATH": path, "PYTHONHASHSEED": "0"})
