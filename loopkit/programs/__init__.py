"""The coding programs that are known by name."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.programs.claude import CLAUDE
from loopkit.programs.codex import CODEX
from loopkit.programs.copilot import COPILOT
from loopkit.programs.gemini import GEMINI
from loopkit.programs.opencode import OPENCODE
from loopkit.programs.port import Program
from loopkit.programs.qwen import QWEN

PROGRAMS: Mapping[str, Program] = {
    program.name: program for program in (CLAUDE, CODEX, GEMINI, COPILOT, OPENCODE, QWEN)
}
