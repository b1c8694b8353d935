"""`section`: a named part of a Markdown text, with something in it."""

from __future__ import annotations

from loopkit.definition import SectionRule
from loopkit.markdown import has_section, section, title_has_text
from loopkit.validators.fault import Fault
from loopkit.validators.subject import Setting, Subject


async def check_section(rule: SectionRule, subject: Subject, _setting: Setting) -> list[Fault]:
    text = subject.content
    if section(text, rule.section) is not None:
        return []
    if has_section(text, rule.section):
        message = f'the section "{rule.section}" has no text under it'
    elif not rule.or_title:
        message = (
            f'no section "{rule.section}": it needs a heading or a label '
            f"`**{rule.section}:**`, with text under it"
        )
    elif title_has_text(text):
        return []
    else:
        message = f'no section "{rule.section}", and no title with text under it'
    return [Fault(message, f"section {rule.section}")]
