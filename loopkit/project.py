"""Machines by name, those of the package and of a project; and `loopkit.yaml` of a project.

That file is read from the current folder upwards. Nothing in it changes what a machine means.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import ValidationError

from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read_file
from loopkit.language.load import explain
from loopkit.language.section import Argv, Noun, Spelled
from loopkit.values import Value

MACHINE_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?(?:\{\s*)?([\"']?)loopkit\1\s*:", re.MULTILINE)
"""The key that a machine has at its top level; looked for as text, since the file may be broken."""
FILE = "loopkit.yaml"
MACHINES = "machines"
Folder = Annotated[
    str,
    Spelled(
        r"(?!.*://).*\S.*",
        "bad-folder",
        "is not the path of a folder",
        "write one, such as `.`; a journal in PostgreSQL is named by `--journal`",
    ),
]


def is_machine(path: Path) -> bool:
    try:
        return MACHINE_KEY.search(path.read_bytes()) is not None
    except OSError:
        # Loading it as a machine reports why it can't be read.
        return True


def machines_in(folder: Path) -> dict[str, Path]:
    """The machine files of a folder, without those of folders in it, by name and in order."""
    found = sorted(folder.glob("*.yaml"))
    return {path.stem: path for path in found if path.is_file() and is_machine(path)}


def files_below(folder: Path, suffix: str) -> list[Path]:
    """The files in a folder, at any depth and in order; in none that is hidden or an environment.

    A broken link is one of them, since to leave it out would look as if all were well.
    """
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        inner = (name for name in folders if not name.startswith("."))
        folders[:] = [one for one in inner if not Path(place, one, "pyvenv.cfg").exists()]
        files = (Path(place, name) for name in names if name.endswith(suffix) and name[0] != ".")
        found += (path for path in files if path.is_file() or not path.exists())
    return sorted(found)


def shipped(name: str) -> Path:
    """The folder `machines` or `schemas`: in the package, or in a clone that is used as it is."""
    inside = Path(str(files("loopkit") / name))
    return inside if inside.is_dir() else inside.parents[1] / name


def shipped_machines() -> dict[str, Path]:
    """A machine's scenario is beside its file, and what it reads in a folder of its name."""
    return machines_in(shipped(MACHINES))


def machine_named(name: str) -> Path | None:
    """The machine of a name: of the project, with its path from here, or else of the package."""
    for folder in (Path(os.path.relpath(project().machines)), shipped(MACHINES)):
        path = folder / f"{name}.yaml"
        if path.is_file() and is_machine(path):
            return path
    return None


class ProjectFile(Noun):
    """What a project says for all of its machines; paths start at the folder of the file."""

    machines: Folder = MACHINES
    """The folder in which machines are found by name."""
    state: Folder | None = None
    """The state folder, in which runs are stored."""
    notify: Argv | None = None
    """The program that is started when a run waits, fails or ends, where its machine has none."""


class Project(Value, frozen=True):
    """What `loopkit.yaml` says, with whole paths."""

    folder: Path
    machines: Path
    state: Path | None = None
    notify: tuple[str, ...] = ()

    @property
    def has_file(self) -> bool:
        return (self.folder / FILE).is_file()


def project(start: Path | None = None) -> Project:
    """That of the nearest file upwards, or else what this folder is; raises ProblemsFound."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            found = (folder / FILE).stat()
            # Whoever may write into a folder above, such as /tmp, must not have programs started.
            if found.st_uid in (0, os.geteuid(), here.stat().st_uid):
                return _read(folder, found.st_mtime_ns)
    return Project(here, here / MACHINES)


@lru_cache(maxsize=8)
def _read(folder: Path, _: int) -> Project:
    document = read_file(folder / FILE, shown_as=os.path.relpath(folder / FILE))
    try:
        said = ProjectFile.model_validate(document.plain())
    except ValidationError as error:
        raise ProblemsFound(list(explain(error, document, ProjectFile))) from error
    machines = folder / said.machines
    state = folder / said.state if said.state is not None else None
    if "machines" in said.model_fields_set and not machines.is_dir():
        message = f"there is no folder `{said.machines}`"
        remedy = "make it, or correct the path, which starts at the folder of this file"
        raise ProblemsFound([document.problem(("machines",), "no-folder", message, remedy)])
    program, *arguments = said.notify or ("",)
    # A name without a slash is looked up on the PATH.
    program = str(folder / program) if os.sep in program else program
    return Project(folder, machines, state, (program, *arguments) if program else ())
