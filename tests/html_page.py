"""Pages read by the tests: elements with their attributes and texts."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)
"""Elements without an end."""


class Element:
    """An element of a page."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.inside: list[Element | str] = []

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    @property
    def text(self) -> str:
        """Its text on one line."""
        return " ".join("".join(self._texts()).split())

    @property
    def raw(self) -> str:
        """Its text as it is."""
        return "".join(self._texts())

    def all(self, tag: str = "", class_: str = "", **attributes: str) -> list[Element]:
        """The elements in it with a tag, a class and attributes, in order."""
        return [
            one
            for one in self._elements()
            if (not tag or one.tag == tag)
            and (not class_ or class_ in one.attributes.get("class", "").split())
            and attributes.items() <= one.attributes.items()
        ]

    def find(self, tag: str = "", class_: str = "", **attributes: str) -> Element:
        """The one element of these."""
        found = self.all(tag, class_, **attributes)
        assert len(found) == 1, (tag, class_, attributes, len(found))
        return found[0]

    def _elements(self) -> Iterator[Element]:
        for one in self.inside:
            if isinstance(one, Element):
                yield one
                yield from one._elements()

    def _texts(self) -> Iterator[str]:
        for one in self.inside:
            if isinstance(one, Element):
                yield from one._texts()
            else:
                yield one


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"<{self._open[-1].tag}> is ended by </{tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


def parsed(text: str) -> Element:
    """A page, in which every element has to end where it may."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [one.tag for one in reader._open] == [""], "an element does not end"
    return reader.root
