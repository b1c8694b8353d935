"""The program that a run of `chaos.yaml` calls: it notes when it lives, and takes its time.

    python chaos_program.py FOLDER SECONDS RUN STATE ROUND ROUNDS

Each line that tells of a call or its end is on the disk before the program goes on, as a payment
would be. No two programs of a run may live at the same time: the log of the run is locked as long
as one lives, whichever process has started it.
"""

import fcntl
import json
import os
import sys
import time

TICK_S = 0.25


def main(folder: str, seconds: str, run: str, state: str, number: str, rounds: str) -> None:
    me = os.urandom(6).hex()
    log = os.open(f"{folder}/{run}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    called = {"state": state, "round": int(number), "id": me}

    def note(what: str, *, sync: bool = True, **more: object) -> None:
        line = {"at": time.time(), "what": what, **called, **more}
        os.write(log, (json.dumps(line) + "\n").encode())
        if sync:
            os.fdatasync(log)

    is_alone = True
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_alone = False
    note("called", pid=os.getpid(), key=os.environ.get("LOOPKIT_CALL", ""), alone=is_alone)
    until = time.monotonic() + float(seconds)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, TICK_S))
        note("lives", sync=False)
    note("ended")
    sys.stdout.write(f"{me} {'last' if number == rounds else 'more'}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
