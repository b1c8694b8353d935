"""A named part of a Markdown text, and what may stand in for it."""

from typing import Self

from pydantic import model_validator

from loopkit.language.noun import Noun, Phrases, fault


class Section(Noun):
    """A heading or a bold label of this name, with text under it."""

    section: str
    """The heading or bold label."""
    or_title: bool = False
    """Use the document's title if there is no such section."""
    strip: Phrases = ()
    """With `or_title`: texts to remove from the end of the title."""
    placeholders: Phrases = ()
    """Texts that count as empty."""

    @model_validator(mode="after")
    def _strip_has_an_effect(self) -> Self:
        if self.strip and not self.or_title:
            raise fault(
                "no-effect",
                "`strip` shortens the title, which is not used here",
                ("strip",),
                help="add `or_title: true`, or remove `strip`",
            )
        return self
