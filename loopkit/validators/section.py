"""`section`: a named part of a Markdown text, with something in it."""

from __future__ import annotations

from loopkit.language import SectionRule
from loopkit.text import one_line
from loopkit.text.markdown import has_section, section, title, title_has_text
from loopkit.validators.fault import Fault
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.setting import Setting


async def check_section(
    rule: SectionRule, subject: JudgedArtifact, _setting: Setting
) -> list[Fault]:
    message = _missing_message(rule, subject.content)
    return [Fault(message, f"section {rule.section}")] if message else []


def _missing_message(rule: SectionRule, text: str) -> str:
    """The message for a missing part; empty where nothing is missing."""
    if section(text, rule.section, placeholders=rule.placeholders) is not None:
        return ""
    if (written := section(text, rule.section)) is not None:
        return f'the section "{rule.section}" has only a placeholder under it: {one_line(written)}'
    if has_section(text, rule.section):
        return f'the section "{rule.section}" has no text under it'
    if not rule.or_title:
        return (
            f'no section "{rule.section}": it needs a heading or a label '
            f"`**{rule.section}:**`, with text under it"
        )
    if not title_has_text(text):
        return f'no section "{rule.section}", and no title with text under it'
    if title(text, strip=rule.strip, placeholders=rule.placeholders) is None:
        return f'no section "{rule.section}", and the title is only a placeholder'
    return ""
