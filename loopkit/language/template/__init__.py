"""Templates: Jinja2, sandboxed, strict and bounded.

`parse` a text, `check` its names against the shapes of the data, and `render` it. A template reads
plain data only, calls nothing, and ends within about a second.
"""

from loopkit.language.template.errors import TemplateError
from loopkit.language.template.plain_data import FieldedText, Record
from loopkit.language.template.rendering import MAX_OUTPUT, Template, check, parse
from loopkit.language.template.shapes import Anything, Fields, Items, Scalar, Shape

__all__ = [
    "MAX_OUTPUT",
    "Anything",
    "FieldedText",
    "Fields",
    "Items",
    "Record",
    "Scalar",
    "Shape",
    "Template",
    "TemplateError",
    "check",
    "parse",
]
