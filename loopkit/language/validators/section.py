"""The `section` rule: a named part of a Markdown text."""

from collections.abc import Mapping

from loopkit.language.section import Section
from loopkit.language.validators.rule import Example, FixedRule


class SectionRule(Section, FixedRule):
    """Checks that the Markdown has a heading or bold label of this name, with text under it."""

    kind = "section"
    sees_only_artifact = True
    example = Example({"section": "Goal"}, passes="# Goal\n\nTea.", fails="# Goal\n")

    @property
    def most_findings(self) -> float:
        return 1

    def wish(self, patterns: Mapping[str, str]) -> str:
        title = " or a title" if self.or_title else ""
        return f"a section `{self.section}` with text in it{title}"
