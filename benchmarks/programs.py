"""Runs the real coding programs by loopkit: `python benchmarks/programs.py DIR --out OUT`.

DIR is a folder to which npm has installed them, or in which this installs them (2 GB). A model on
loopback plays what each of them talks to, so no key and no network is needed; as root on Linux,
everything runs in a network that has nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripted_model import NOTE, Model, Step, serve

from loopkit.programs import PROGRAMS

Json = dict[str, Any]

NODE = "node@22.23.3"
SCRIPTS = {
    "node": "installArchSpecificPackage",
    "@anthropic-ai/claude-code": "install.cjs",
    "opencode-ai": "postinstall.mjs",
}
"""What has to be run after the installation."""
SAID = "The greeting is in hello.txt, and it greets the whole wide world."
DONE = "The note is written, with two lines."
PROMPT = "Write the note."
AGAIN = "Your previous version"
"""In the prompt of a revision that is begun in a new session."""
LIMIT_S = 600

WRITE = Step(writes=True, tokens=(1100, 20))
ENDS = Step(DONE, tokens=(1200, 30))
SESSIONS = {
    "claude": ".claude/projects",
    "codex": ".codex/sessions",
    "gemini": ".gemini/tmp",
    "copilot": ".copilot/session-state",
    "opencode": ".local/share/opencode",
    "qwen": ".qwen/projects",
}
"""Where each keeps its sessions in the home folder."""


@dataclass(frozen=True)
class Case:
    steps: Sequence[Step]
    text: str | None = DONE
    """The artifact; without one the run is broken off."""
    tokens: int | None = None
    """Of all calls; where a program tries again by itself, it does not count the same."""
    requests: int | None = None
    goes_on: bool | None = None
    """Whether the last request is in the session of the first."""
    check: str = "exit 0"
    """A script that judges the answer."""


HAS_NOTE = "test -f notes.txt || { echo There is no note.; exit 1; }"
REVISED = (Step(SAID), WRITE, ENDS)
CASES: Mapping[str, Case] = {
    "success": Case([ENDS], tokens=1230, requests=1),
    "edit": Case([WRITE, ENDS], tokens=2350, requests=2),
    "revision": Case(REVISED, tokens=3360, requests=3, goes_on=True, check=HAS_NOTE),
    "lost session": Case(
        REVISED, tokens=3360, requests=3, goes_on=False, check=f'rm -rf "{{sessions}}"; {HAS_NOTE}'
    ),
    "401": Case([Step(status=401)], text=None),
    "429 with a time": Case([Step(status=429, retry_after=1), ENDS], requests=2),
    "500 before an edit": Case([Step(status=500), ENDS], requests=2),
    "500 after an edit": Case([WRITE, Step(status=500), ENDS], requests=3),
    "cut in the middle": Case([Step(SAID, cut=True), ENDS]),
    "killed": Case([Step(SAID, pause_s=1.5), ENDS]),
}

QUIET = {
    ".gemini/settings.json": {
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"maxAttempts": 1, "enableAutoUpdate": False},
    },
    ".qwen/settings.json": {
        "privacy": {"usageStatisticsEnabled": False},
        # It asks the model about what it remembers, after each answer.
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
        "model": {"generationConfig": {"maxRetries": 0}},
    },
}
"""Settings in the home folder, for programs that have no flag for them."""


def agent_of(name: str, base: str) -> Json:
    """The agent of a machine, as one would write it who has a provider of his own."""
    agent: Json = {
        "program": name, "auth": "key", "timeout": "3m", "on_in_doubt": "retry",
        "retry": {"attempts": 3, "backoff": "1s"},
    }  # fmt: skip
    model = {"gemini": "gemini-2.5-flash", "opencode": "own/test-model"}.get(name, "test-model")
    agent |= {} if name == "claude" else {"model": model}
    if "base_url" not in PROGRAMS[name].lacks:
        has_no_version = name in ("claude", "gemini")
        agent["base_url"] = base if has_no_version else f"{base}/v1"
    if name == "copilot":
        agent["env"] = ["COPILOT_OFFLINE"]
    if name == "opencode":
        agent["env"] = ["OPENCODE_DISABLE_MODELS_FETCH"]
    return agent


def settings_of(name: str, base: str) -> Mapping[str, Json]:
    """The files of a home folder."""
    options = {"baseURL": f"{base}/v1", "apiKey": "test-key"}
    own = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"test-model": {}}}
    files = {**QUIET, ".config/opencode/opencode.json": {"provider": {"own": own}}}
    return {path: content for path, content in files.items() if name in path}


def machine_of(name: str, case: Case, base: str, home: Path) -> Json:
    script = case.check.replace("{sessions}", str(home / SESSIONS[name]))
    return {
        "loopkit": 1,
        "agents": {"coder": agent_of(name, base)},
        "validators": {"note": {"command": ["sh", "-c", script]}},
        "states": {
            "code": {"agent": "coder", "prompt": PROMPT, "output": "said", "next": "check"},
            "check": {
                "validate": "said", "by": ["note"],
                "transitions": [
                    {"guard": "valid", "target": "done"},
                    {"revise": "code", "max": 2},
                    {"target": "failed"},
                ],
            },
            "done": {"final": "success", "result": "said"},
            "failed": {"final": "failure"},
        },
    }  # fmt: skip


def run(name: str, case: Case, programs: Path, folder: Path) -> tuple[list[Json], list[str]]:
    """The events of a run, and the requests that reached the model."""
    shutil.rmtree(folder, ignore_errors=True)
    home, project = folder / "home", folder / "project"
    for made in (home / "tmp", project):
        made.mkdir(parents=True)
    model = Model(case.steps, project / "notes.txt")
    server = serve(model)
    base = f"http://127.0.0.1:{server.server_port}"
    for path, content in settings_of(name, base).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(json.dumps(content), encoding="utf-8")
    machine = project / "machine.yaml"
    machine.write_text(json.dumps(machine_of(name, case, base, home), indent=1), encoding="utf-8")
    key = PROGRAMS[name].key_variables
    env = {
        **dict.fromkeys(key, "test-key"), "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home), "TMPDIR": str(home / "tmp"), "LANG": "C.UTF-8",
        "COPILOT_OFFLINE": "true", "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "loopkit", "run", str(machine), "--output", "jsonl"]
    with (folder / "stdout").open("w") as stdout, (folder / "stderr").open("w") as stderr:
        started = subprocess.Popen(command, cwd=project, env=env, stdout=stdout, stderr=stderr)
        if any(step.pause_s for step in case.steps):
            kill_program(started.pid, model)
        with suppress(subprocess.TimeoutExpired):  # what it has printed until now is judged
            started.wait(LIMIT_S)
        started.kill()
    server.shutdown()
    lines = (folder / "stdout").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return events, model.asked


def kill_program(loopkit: int, model: Model) -> None:
    """End the program while the model speaks, as an impatient system would."""
    deadline = time.monotonic() + LIMIT_S / 2
    while not model.asked and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(3)
    for child in children_of(loopkit):
        # Some programs start themselves again, and are two processes in one group.
        if os.getpgid(child) == child:
            os.killpg(child, signal.SIGTERM)


def children_of(parent: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def faults_of(
    name: str, case: Case, events: Sequence[Json], asked: Sequence[str], note: Path
) -> Iterator[str]:
    """What is not as it should be."""
    end = next((event for event in events if event["type"] == "result"), {})
    kinds = [event["type"] for event in events]
    if case.text is None:
        told = " ".join(event["message"] for event in events if event["type"] == "failed")
        if end.get("outcome") is not None or PROGRAMS[name].key_variables[0] not in told:
            yield f"it should name the key: {end.get('outcome')}, {told}"
        return
    if (end.get("result") or {}).get("said") != case.text:
        yield f"it ends in {end.get('outcome')} with {end.get('result')}"
    writes = any(step.writes for step in case.steps)
    if writes and not (note.exists() and note.read_text(encoding="utf-8") == NOTE):
        yield "there is no note"
    if writes and "acted" not in kinds:
        yield "nobody was told of the edit"
    if case.requests is not None and len(asked) != case.requests:
        yield f"{len(asked)} requests instead of {case.requests}"
    tokens = end.get("usage", {}).get("tokens")
    if case.tokens is not None and tokens != case.tokens:
        yield f"{tokens} tokens instead of {case.tokens}"
    if case.goes_on is not None and (AGAIN in asked[-1]) == case.goes_on:
        yield "the last request is in the wrong session"


def install(folder: Path) -> Path:
    """The folder with the commands, once they are there."""
    modules = folder / "node_modules"
    commands = modules / ".bin"
    if not (commands / "node").exists():
        packages = [f"{program.package}@{program.tested[1]}" for program in PROGRAMS.values()]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", NODE, *packages]
        subprocess.run(npm, cwd=folder, check=True)
        # The scripts of all others compile what nobody needs here.
        for package, script in SCRIPTS.items():
            subprocess.run(["node", script], cwd=modules / package, check=True)
        (commands / "node").symlink_to("../node/bin/node")
    return commands.resolve()


def alone() -> None:
    """Start this again in a network that has only loopback, where that can be made."""
    probe = subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True)
    if "IS_ALONE" not in os.environ and probe.returncode == 0:
        inner = 'ip link set lo up; exec "$@"'
        argv = ["unshare", "-n", "sh", "-c", inner, "sh", sys.executable, *sys.argv]
        os.execvpe("unshare", argv, {**os.environ, "IS_ALONE": "1"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PROGRAMS), help="the names of some programs")
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()
    commands = install(args.programs)
    alone()
    wrong = 0
    for name in args.only.split(","):
        for title in args.cases.split(","):
            folder = args.out.resolve() / name / title.replace(" ", "-")
            started, case = time.monotonic(), CASES[title]
            events, asked = run(name, case, commands, folder)
            faults = list(faults_of(name, case, events, asked, folder / "project" / "notes.txt"))
            wrong += bool(faults)
            took = f"{time.monotonic() - started:5.1f} s, {len(asked)} requests"
            print(f"{name:9} {title:20} {took}  {'; '.join(faults) or 'right'}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
