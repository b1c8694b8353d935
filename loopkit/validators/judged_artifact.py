"""The subject of a rule: the version of an artifact that is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopkit.machine.scope import over
from loopkit.text.markdown import with_line_feeds
from loopkit.values import Value


class JudgedArtifact(Value, frozen=True):
    """The version of an artifact that is judged."""

    artifact: str
    """Its name."""
    text: str
    data: object = None
    is_data: bool = False
    """Whether the artifact is `data`, so that `text` does not count."""

    @property
    def content(self) -> str:
        """The text with LF line ends, or the data as JSON on one line."""
        if self.is_data:
            return json.dumps(self.data, ensure_ascii=False)
        return with_line_feeds(self.text)

    def names(self, others: Mapping[str, object]) -> Mapping[str, object]:
        """The names of a template: the others, the artifact by its name and as `artifact`.

        If one of the others equals this artifact, it is used instead, with its fields.
        """
        own = self.data if self.is_data else self.text
        known = others.get(self.artifact)
        value = known if known == own else own
        return over({self.artifact: value, "artifact": value}, others)
