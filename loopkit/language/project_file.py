"""The keys of `loopkit.yaml`."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read_file
from loopkit.language.load import explain
from loopkit.language.section import Argv, Noun, Spelled

Folder = Annotated[
    str,
    Field(min_length=1),
    Spelled(
        "(?!.*://).*",
        "bad-folder",
        "is an address, not a folder",
        "a journal in PostgreSQL is named by `--journal` or `LOOPKIT_JOURNAL`",
    ),
]


class ProjectFile(Noun):
    """What a project says for all of its machines; paths start at the folder of the file."""

    machines: Folder | None = None
    """The folder in which machines are found by name."""
    state: Folder | None = None
    """The state folder, in which runs are stored."""
    notify: Argv | None = None
    """The program that is started when a run waits, fails or ends, where its machine has none."""


def load_project(path: Path) -> ProjectFile:
    """What the file says; raises ProblemsFound."""
    document = read_file(path, shown_as=os.path.relpath(path))
    try:
        said = ProjectFile.model_validate(document.plain())
    except ValidationError as error:
        raise ProblemsFound(list(explain(error, document, ProjectFile))) from error
    if said.machines is not None and not (path.parent / said.machines).is_dir():
        message = f"there is no folder `{said.machines}`"
        remedy = "make it, or correct the path, which starts at the folder of this file"
        raise ProblemsFound([document.problem(("machines",), "no-folder", message, remedy)])
    return said
