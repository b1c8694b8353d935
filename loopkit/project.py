"""`loopkit.yaml`: where the machines and the runs of a project are, and who is told of these.

It is read from the current folder upwards. Nothing in it changes what a machine means.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from loopkit.shipped import machines_in
from loopkit.values import Value

FILE = "loopkit.yaml"


class Project(Value, frozen=True):
    machines: Path | None = None
    state: Path | None = None
    notify: tuple[str, ...] = ()

    @property
    def own_machines(self) -> dict[str, Path]:
        """Its machines by name, each with its path from here."""
        found = machines_in(self.machines) if self.machines is not None else {}
        return {name: Path(os.path.relpath(path)) for name, path in found.items()}


def project_file(start: Path | None = None) -> Path | None:
    here = (start or Path.cwd()).resolve()
    return next((one / FILE for one in (here, *here.parents) if (one / FILE).is_file()), None)


def project(start: Path | None = None) -> Project:
    """The project here, which says nothing where there is no file; raises ProblemsFound."""
    path = project_file(start)
    return Project() if path is None else _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, _: int) -> Project:
    # Most commands find no such file.
    from loopkit.language.project_file import load_project  # noqa: PLC0415

    said, folder = load_project(path), path.parent
    program, *arguments = said.notify or ("",)
    # A name without a slash is looked up on the PATH.
    program = str(folder / program) if os.sep in program else program
    return Project(
        folder / said.machines if said.machines is not None else None,
        folder / said.state if said.state is not None else None,
        (program, *arguments) if program else (),
    )
