"""A process that has loaded loopkit, and becomes a worker again and again.

Each line on stdin is a worker to start: `{"argv": […], "cwd": …, "env": {…}, "log": …}`. It prints
the number of its process. Starting Python and loading everything takes seconds of a busy machine;
apart from that these are processes like others, with sessions of their own.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

LOADED = (
    "loopkit.app", "loopkit.cli", "loopkit.cli.worker", "loopkit.serving.host",
    "loopkit.journal.postgres.store", "loopkit.drive.advance", "psycopg", "procrastinate",
)  # fmt: skip


def become(order: dict[str, Any]) -> None:
    from loopkit.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(order["cwd"])
    os.environ.update(order["env"])
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    argv = sys.argv = order["argv"]
    if argv[0] == "loopkit":
        main()
    else:
        # A program in Python that is given by its file.
        program = Path(argv[0])
        sys.path.insert(0, str(program.parent))
        importlib.import_module(program.stem).main()


def serve() -> None:
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    # Nobody waits for them: they are gone when they have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                become(json.loads(line))
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
