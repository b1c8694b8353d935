"""A command agent with a side effect: each call leaves a line in a file before it answers.

`agent.py NAME`: answers by what the prompt says, so that the same prompt always
gives the same reply. Where the file `kill_at` holds the number of this call, the
process that made the call is killed while it waits for the answer.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path

name, prompt = sys.argv[1], sys.stdin.read()
calls = Path("calls.log")
with calls.open("a", encoding="utf-8") as log:
    log.write(f"{name}\n")
    log.flush()
    # Others may write at the same time: up to here are those before this one, and its own.
    end = log.tell()
number = calls.read_bytes()[:end].count(b"\n")
kill_at = Path("kill_at")
if kill_at.exists() and kill_at.read_text(encoding="utf-8") == str(number):
    os.kill(os.getppid(), signal.SIGKILL)

if name == "author":
    rounds = [line for line in ("revision 1", "revision 2") if line in prompt]
    texts = {
        0: "Only a title",
        1: "# Plan\n\nLong enough, handwaving.",
        2: "# Plan\n\nLong enough, good.",
    }
    print(texts[2 if "revision 2" in rounds else len(rounds)])
elif name == "planner":
    print("# Plan\n\nLong enough, " + ("good." if "revision 1" in prompt else "handwaving."))
elif name == "mumbler" and "could not be used" not in prompt:
    print("Well.")
elif name in ("critic", "mumbler"):
    vague = "handwaving" in prompt
    finding = '{"message": "Too vague.", "severity": "error"}'
    print('{"verdict": "%s", "findings": [%s]}' % (("fail", finding) if vague else ("pass", "")))
elif name == "reviewer":
    known = re.findall(r'^\{"id": "(\w+)"', prompt, re.MULTILINE)
    new = {"message": f"Finding {len(known) + 1}.", "severity": "error"}
    failed = {"verdict": "fail", "known": dict.fromkeys(known, "open"), "findings": [new]}
    print(json.dumps({"verdict": "pass", "findings": []} if "good." in prompt else failed))
else:
    print(f"{name} ran")
