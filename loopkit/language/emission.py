"""`emit`: an event of the author's own name, stored with what the run knows at that point."""

from typing import Annotated, Self

from pydantic import Discriminator, Field, SerializeAsAny, Tag

from loopkit.language.noun import ByItself, Id, Noun, Written

Label = Annotated[str, Field(min_length=1, max_length=10_000)]


class Emission(Noun):
    """An event with a name that the author of the machine chooses."""

    name: Id
    """The name of the event."""
    phase: Label | None = None
    """A template for the phase of the work that begins here. Later events belong to it until one
    names another phase."""
    source: Label | None = None
    """A template for the maker of the version that the event is about. Default: the state that
    wrote it."""

    @classmethod
    def of(cls, written: str | Self | None) -> Self | None:
        """What `emit:` says, in its long form."""
        return cls(name=written) if isinstance(written, str) else written

    @property
    def templates(self) -> Written:
        """The templates that are filled in when the event is stored."""
        for key in ("phase", "source"):
            if (text := getattr(self, key)) is not None:
                yield (key,), text


Emit = SerializeAsAny[
    Annotated[
        Annotated[Id, Tag("<name>")] | Annotated[Emission, ByItself(Emission), Tag("<event>")],
        Discriminator(lambda value: "<name>" if isinstance(value, str) else "<event>"),
    ]
]
"""The name of an event, or all that it says."""
