"""Diagrams of a machine, of the path that a run took, and of what cases cover."""

from collections.abc import Callable, Mapping

from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import Drawing
from loopkit.views.diagram.svg import svg

FORMATS: Mapping[str, Callable[[Drawing], str]] = {"mermaid": mermaid, "svg": svg}
