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
    """A field with the text under a heading or bold label."""

    default: str | None = None
    """The value if nothing is found. Default: none."""


class ExtractMatch(Noun):
    """A field with the first match of a pattern, or with its first group if it has one."""

    match: str
    """A regular expression, or a name under `patterns:`."""
    default: str | None = None
    """The value if nothing is found. Default: none."""


class ExtractAll(Noun):
    """A field with the list of all matches of a pattern, in order and without duplicates."""

    all: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""


class ExtractCount(Noun):
    """A field with the number of matches of a pattern."""

    count: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""
    default: int | None = None
    """The value if nothing matches, instead of 0."""


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
    """The artifact that a state writes."""

    name: Id
    """The name of the artifact."""
    file: str | None = None
    """The file in the workspace that is the artifact, if this attempt wrote it."""
    folder: str | None = None
    """The folder in the workspace that is the artifact, if this attempt changed anything in it. Its
    text is the diff against the contents before the first attempt."""
    else_: Literal["reply"] | None = Field(None, alias="else")
    """`reply`: use the reply as the artifact if the attempt did not write the file or change the
    folder."""
    fence: Literal["strip"] | None = None
    """`strip`: if the text has exactly one code fence, its content is the artifact."""
    fields: dict[Id, Extract] = {}
    """Typed fields to extract from the text."""

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
    """The file in the workspace to write the text to."""
    append: bool = False
    """Append the text to the file instead of replacing it."""


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
