"""The files of `deploy/` fit together, and their commands work as they say, without a container.

Where the tests are root and may, the commands run as the user that the files name, on a root that
cannot be written but for the folders that they name.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from ruamel.yaml import YAML

from loopkit.cli import COMMANDS
from loopkit.journal.journal import open_journal
from loopkit.journal.postgres.migration import migrate
from tests.created import created
from tests.support import ROOT
from tests.support_postgres import Proxy, server, url_without_tables
from tests.waiting import until

FOLDER = ROOT / "deploy"
GIVEN = {"DATABASE_PASSWORD": "of-the-database", "LOOPKIT_TOKEN": "a-token-for-tests-only"}


COMPOSE = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
NEEDED = {*re.findall(r"\$\{(\w+):\?", COMPOSE)}
FILLED = re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda v: GIVEN.get(v[1], v[2]), COMPOSE)
SERVICES = YAML(typ="safe").load(FILLED)["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "loopkit"}


IMAGE: dict[str, list[str]] = {}
"""The words behind each instruction of the container file."""
CONTAINERFILE = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "")
for instruction, rest in re.findall(r"^([A-Z]+) (.*)$", CONTAINERFILE, re.MULTILINE):
    words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    IMAGE.setdefault(instruction, []).extend(words)
VARIABLES = dict(word.split("=", 1) for word in IMAGE["ENV"])


def test_the_files_name_the_same_user_and_the_same_writable_folders() -> None:
    assert OURS.keys() == {"migrate", "worker", "serve"}
    for service in OURS.values():
        assert service["user"] == IMAGE["USER"][0]
        assert min(map(int, service["user"].split(":"))) > 0
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        mounted = [volume.split(":")[1] for volume in service["volumes"]]
        assert {*mounted, *service["tmpfs"]} == {*IMAGE["VOLUME"]}
    for folder in (VARIABLES["HOME"], VARIABLES["LOOPKIT_STATE"], *IMAGE["WORKDIR"]):
        assert any(Path(folder).is_relative_to(volume) for volume in IMAGE["VOLUME"])
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{folder}`" in readme for folder in IMAGE["VOLUME"])
    copied = [word for word in IMAGE["COPY"] if not word.startswith("/")]
    assert all((ROOT / name).exists() for name in copied)


def test_what_starts_first_is_what_the_others_wait_for() -> None:
    for name in ("worker", "serve"):
        done = {"migrate": {"condition": "service_completed_successfully"}}
        assert OURS[name]["depends_on"] == done
    assert OURS["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert OURS["worker"]["deploy"]["replicas"] == 2
    assert GIVEN.keys() == NEEDED
    database = SERVICES["postgres"]["environment"]
    variables = OURS["worker"]["environment"]
    assert variables["PGPASSWORD"] == database["POSTGRES_PASSWORD"]
    user, name = database["POSTGRES_USER"], database["POSTGRES_DB"]
    assert variables["LOOPKIT_JOURNAL"] == f"postgresql://{user}@postgres/{name}"


ALONE = """
set -e
mount --make-rprivate /
mount --bind "$1" /mnt
if [ -n "$2" ]; then  # a folder of root, in which the interpreter is
  mount --bind "$3" /srv
  mount -t tmpfs -o mode=755 tmpfs "$2"
  mkdir -p "$3"
  mount --move /srv "$3"
fi
mount -o remount,bind,ro /
user=$4 && shift 4
exec setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups --no-new-privs "$@"
"""
"""Starts a program on a root that cannot be written, with a folder as `/mnt`, as another user."""
IS_ALONE = not os.getuid() and not subprocess.run(["unshare", "-m", "true"], check=False).returncode


class Containers:
    """Folders as the files name them, and processes that have no others to write to."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._seen = Path("/mnt") if IS_ALONE else folder
        self.started: list[subprocess.Popen[bytes]] = []
        for volume in IMAGE["VOLUME"]:
            (folder / volume[1:]).mkdir(parents=True)
            if IS_ALONE:
                os.chown(folder / volume[1:], *map(int, IMAGE["USER"][0].split(":")))

    def start(self, service: str, *command: str) -> subprocess.Popen[bytes]:
        places = {name: f"{self._seen}{path}" for name, path in VARIABLES.items() if path[0] == "/"}
        variables = {**VARIABLES, **places, "TMPDIR": f"{self._seen}/tmp"}
        variables |= {**OURS[service]["environment"], "LOOPKIT_JOURNAL": self._url}
        entry = [sys.executable, "-m", *IMAGE["ENTRYPOINT"], *command]
        program = ["env", "-C", f"{self._seen}{IMAGE['WORKDIR'][0]}", *entry]
        if IS_ALONE:
            above = [*Path(sys.base_prefix).parents][::-1]
            closed = next((str(one) for one in above if not one.stat().st_mode & 1), "")
            told = (str(self._folder), closed, sys.base_prefix, OURS[service]["user"])
            program = ["unshare", "-m", "sh", "-c", ALONE, "sh", *told, *program]
        # Nothing of the tests' own variables, but for the code that is tested.
        process = subprocess.Popen(
            program, env={**variables, "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.started.append(process)
        return process

    def written(self) -> set[str]:
        paths = (path for path in self._folder.rglob("*") if path.is_file())
        return {f"/{path.relative_to(self._folder)}" for path in paths}


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    proxy = Proxy()
    made = Containers(tmp_path / "root", proxy.url(url_without_tables(tmp_path)))
    done = made.start("migrate", *OURS["migrate"]["command"])
    said, _ = done.communicate(timeout=300)
    assert done.returncode == 0, said
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        process.stdout.close()
    proxy.close()


@pytest.mark.parametrize("service", [name for name in ("serve", "worker") if name in COMMANDS])
def test_a_command_works_and_its_check_of_health_says_so(
    containers: Containers, service: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
    command = OURS[service]["command"]
    check = OURS[service]["healthcheck"]["test"][-1]
    own = re.search(r"127\.0\.0\.1:(\d+)", check)[1]
    told = [word.replace(own, port) for word in command]
    process = containers.start(service, *told, *(["--port", port] if told == command else []))
    asked = [sys.executable, "-c", check.replace(own, port)]
    variables = {**os.environ, **OURS[service]["environment"]}

    def is_healthy() -> bool:
        assert process.poll() is None, process.communicate()
        done = subprocess.run(asked, env=variables, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    until(is_healthy)
    assert all(path.startswith(VARIABLES["HOME"]) for path in containers.written())
    process.send_signal(getattr(signal, IMAGE["STOPSIGNAL"][0]))
    said, _ = process.communicate(timeout=300)
    assert process.returncode in (0, 128 + signal.SIGTERM), said


async def test_the_roles_that_the_docs_name_are_enough_and_no_more() -> None:
    docs = (ROOT / "docs" / "many-machines.md").read_text(encoding="utf-8")
    (grants,) = re.findall(r"```sql\n(.*?)```", docs, re.DOTALL)
    name = f"roles_{os.getpid()}"
    grants = re.sub(r"\b(owner|worker)\b", rf"\1_{name}", grants)
    parts = urlsplit(server())
    secret = parts.password or ""
    where = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}/{name}?{parts.query}"
    roles = {role: f"{role}_{name}" for role in ("owner", "worker")}
    with psycopg.connect(server(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        try:
            for role in roles.values():
                admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{secret}'".encode())
            with psycopg.connect(f"postgresql://{parts.username}:{secret}@{where}") as db:
                db.execute(grants.encode())
            migrate(f"postgresql://{roles['owner']}:{secret}@{where}")
            url = f"postgresql://{roles['worker']}:{secret}@{where}"
            journal = open_journal(url)
            claim = await created(journal)
            await journal.submit("r")
            await journal.post("r", "answer", "a", "", 1.0)
            await claim.append([], ["a"], releases=True)
            await journal.remove("r")
            await journal.close()
            with psycopg.connect(url) as db:
                db.execute("INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('', '')")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    db.execute("DROP TABLE loopkit.runs")
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            for role in roles.values():
                admin.execute(f"DROP ROLE IF EXISTS {role}".encode())
