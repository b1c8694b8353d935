"""Templates of pages, and what they show of a text, a moment, a change from version to version.

Every value in them is escaped, and stripped of control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from loopkit.text import one_line, plural, printable, shorten
from loopkit.text.editing import changed_lines, editable
from loopkit.text.json_text import parse_json
from loopkit.text.markdown import LONGEST_SHOWN, as_html
from loopkit.views.amounts import cost, duration, usage_parts, usage_text
from loopkit.views.diagram.svg import style_sheet
from loopkit.views.review import artifact_lines, origins_of, verdict_text, weight
from loopkit.views.run_data import call_title, filled_in, word_of
from loopkit.views.stats import figures_of, phase_cells
from loopkit.views.steps import KeptVersion

MARKS = re.compile(r"[!-/:-@\[-`{-~]")
"""Characters that may have a meaning in Markdown; a backslash escapes each of them."""
LINE_WIDTH = 300
MOST_INDENTED = 10 * LONGEST_SHOWN
NO_ID = re.compile(r"[^\w.-]")
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CODE = Markup("<code>{}</code>")


class Excerpt(NamedTuple):
    head: str
    left_out: int = 0
    tail: str = ""


def excerpt(text: str, most: int) -> Excerpt:
    """At most `most` characters of a text, three quarters of them from its beginning."""
    if len(text) <= most:
        return Excerpt(text)
    tail = most // 4
    return Excerpt(text[: most - tail], len(text) - most, text[len(text) - tail :])


def moment(at: float) -> str:
    """A Unix time as a person reads it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(at: float) -> str:
    """A Unix time in ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def markdown(text: object) -> str:
    """A text on one line, with everything escaped that Markdown or HTML could interpret."""
    return MARKS.sub(r"\\\g<0>", one_line(str(text), LINE_WIDTH))


def fence(text: str) -> str:
    """A fence of more backticks than any run of them in a text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(longest + 1, 3)


def diff_text(change: Difference) -> str:
    more = [f"… and {plural(change.left_out, 'more line', ',')}"] if change.left_out else []
    return "\n".join([*change.lines, *more])


Tone = Literal["good", "bad", "odd", "busy", "faint"]
TONES: dict[str, Tone] = {
    "new": "busy", "running": "busy", "waiting": "odd", "suspended": "odd", "interrupted": "odd",
    "cancelled": "faint",
}  # fmt: skip


def tone_of(status: str, success: bool | None) -> Tone:
    return TONES.get(status, "good" if success else "bad")


def label(text: str) -> str:
    """The names of states and choices in a text, as a person reads them; code stays as it is."""
    parts = QUOTED.split(text)
    return "".join(f"`{one}`" if at % 2 else one.replace("_", " ") for at, one in enumerate(parts))


def readable(text: str) -> Markup:
    """A text as it reads best: Markdown set, data indented; empty if that is the text itself."""
    clean = printable(text)
    if clean.lstrip()[:1] in ("{", "[") and len(clean) <= LONGEST_SHOWN:
        value = parse_json(clean)
        is_data = isinstance(value, dict | list)
        indented = json.dumps(value, indent=2, ensure_ascii=False) if is_data else ""
        if is_data and indented != clean.strip() and len(indented) <= MOST_INDENTED:
            return Markup('<pre tabindex="0">{}</pre>').format(indented)
    # As Markdown, a text can also name characters that it does not contain.
    return Markup(printable(as_html(clean)))  # noqa: S704 - it is escaped where it is made


def anchor(name: str) -> str:
    """The name of a field as part of an HTML id, which may not have blanks."""
    return NO_ID.sub("_", name)


def _clean(value: Any) -> Any:
    """A value for a page: text without escape sequences and bidi overrides."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value


def prose(text: object) -> Markup:
    """A text in which what is between backticks is set as code."""
    parts = QUOTED.split(str(_clean(text)))
    return Markup().join(CODE.format(part) if at % 2 else part for at, part in enumerate(parts))


@cache
def environment() -> Environment:
    """The templates of this package; HTML is escaped, a missing name is an error."""
    templates = Environment(
        loader=PackageLoader("loopkit.views.page"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters |= {
        "anchor": anchor, "called": call_title, "cost": cost,
        "beginning": partial(one_line, width=LINE_WIDTH), "counted": verdict_text,
        "change_in": difference, "diff_text": diff_text, "duration": duration, "editable": editable,
        "excerpt": excerpt, "expense": usage_parts, "fence": fence, "figures": figures_of,
        "filled_in": filled_in, "iso": iso, "label": label, "md": markdown, "moment": moment,
        "json": partial(json.dumps, indent=2, ensure_ascii=False), "origins": origins_of,
        "phase_cells": phase_cells, "plural": plural, "prose": prose, "readable": readable,
        "spent": usage_text, "tone": tone_of, "weight": weight, "word": word_of,
    }  # fmt: skip
    return templates


def render(template: str, names: Mapping[str, Any]) -> str:
    return environment().get_template(template).render(names)


@cache
def asset(name: str) -> str:
    """The text of a style sheet or script; `page.css` includes the style of diagrams."""
    text = files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
    return text + style_sheet() if name == "page.css" else text


MOST_LINES = 400
CHANGED_LINE_WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Difference:
    before: int
    """The number of the version that it is compared with."""
    lines: Sequence[str]
    left_out: int = 0

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines)


def difference(versions: Sequence[KeptVersion], number: int) -> Difference | None:
    if number < 2:
        return None
    before, after = versions[number - 2], versions[number - 1]
    if after.artifact.tree and before.artifact.tree:
        changed = printable(after.artifact.fields["last_change"]).splitlines()
    else:
        changed = changed_lines(artifact_lines(before.artifact), artifact_lines(after.artifact))
    return as_difference(before.number, changed)


def as_difference(number: int, changed: Sequence[str]) -> Difference:
    shown = [shorten(line, CHANGED_LINE_WIDTH) for line in changed[:MOST_LINES]]
    return Difference(number, shown, len(changed) - len(shown))
