"""Outputs: the artifact that a state leaves behind, and the fields taken out of its text."""

from functools import cache, cached_property
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from loopkit.language.noun import Id, Noun, Written, fault
from loopkit.language.section import Section

OF_FOLDERS = ("files", "last_change", "digest")
"""Of a folder: the paths that differ from before the first attempt, what this attempt changed, and
what is equal where the contents are."""


class ExtractSection(Section):
    """A field that is the text under a heading or a bold label."""

    default: str | None = None
    """Where nothing is found; without it none."""


class ExtractMatch(Noun):
    """A field that is the first match of a pattern, its first group where it has one."""

    match: str
    """A regular expression, or a name under `patterns:`."""
    default: str | None = None
    """Where nothing is found; without it none."""


class ExtractAll(Noun):
    """A field that is the list of all matches, in order, each once."""

    all: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""


class ExtractCount(Noun):
    """A field that says how often a pattern matches."""

    count: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""
    default: int | None = None
    """Instead of 0."""


def _extract_kind(value: object) -> str | None:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((f"<{key}>" for key in ("section", "match", "all", "count") if key in keys), None)


Extract = Annotated[
    Annotated[ExtractSection, Tag("<section>")]
    | Annotated[ExtractMatch, Tag("<match>")]
    | Annotated[ExtractAll, Tag("<all>")]
    | Annotated[ExtractCount, Tag("<count>")],
    Discriminator(
        _extract_kind,
        custom_error_type="unknown-extract",
        custom_error_message="this does not say how to extract a field from a text",
    ),
]


class Output(Noun):
    """The artifact that a state leaves behind."""

    name: Id
    """What the artifact is called."""
    file: str | None = None
    """The artifact is this file of the workspace, if this attempt wrote it."""
    folder: str | None = None
    """The artifact is this folder of the workspace, if this attempt changed anything in it: its
    text is the difference to what was there before the first attempt."""
    else_: Literal["reply"] | None = Field(None, alias="else")
    """Where the attempt wrote no file, or changed nothing in the folder: the reply is the
    artifact."""
    fence: Literal["strip"] | None = None
    """`strip`: where the text has exactly one code fence, the artifact is what stands in it."""
    fields: dict[Id, Extract] = {}
    """Typed fields taken out of the text."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        for key in ("file", "fence"):
            if self.folder is not None and getattr(self, key) is not None:
                raise fault(
                    "folder-as-text",
                    f"`{key}` is for a text, and this artifact is a folder",
                    (key,),
                    help=f"delete `{key}`, or `folder`",
                )
        return self

    @cached_property
    def is_left(self) -> bool:
        """Whether it is what the work leaves in the workspace."""
        return self.file is not None or self.folder is not None

    @cached_property
    def may_be_missing(self) -> bool:
        """Whether there may be none, because the work left nothing there."""
        return self.is_left and self.else_ is None

    @property
    def is_whole_folder(self) -> bool:
        """Whether it is a folder whatever is answered: then that is all of the work."""
        return self.folder is not None and self.else_ is None

    @property
    def templates(self) -> Written:
        """The paths in the workspace."""
        if self.file is not None:
            yield ("file",), self.file
        if self.folder is not None:
            yield ("folder",), self.folder

    @property
    def beside(self) -> tuple[str, ...]:
        """What templates see under it, beside its fields."""
        return OF_FOLDERS if self.folder is not None else ()


class RenderOutput(Output):
    """The artifact of a `render` state."""

    file: str | None = None
    """The file of the workspace to which the text is written."""
    append: bool = False
    """The text is added to what the file holds."""


_NAME_OR_MORE = Discriminator(lambda value: "<name>" if isinstance(value, str) else "<output>")
OutputName = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[Output, Tag("<output>")], _NAME_OR_MORE
]
RenderOutputName = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[RenderOutput, Tag("<output>")], _NAME_OR_MORE
]


@cache
def output_from_name(name: str) -> Output:
    """The output of a state that states only its name."""
    return Output(name=name)
