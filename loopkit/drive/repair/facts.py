"""Facts that guards read of states whose earlier work left something else."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.document.document import DocPath
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType, default_fault
from loopkit.machine.graph import Graph
from loopkit.machine.program import Program, flat_facts


def unknown_facts(run: RunState, graph: Graph) -> Iterator[tuple[DocPath, str, str, str]]:
    """The place of each guard, the fact, its state, and what that left instead.

    The state that is at work now is left out: it will leave new facts.
    """
    program = Program(graph.machine, "")
    left = {name: flat_facts(facts) for name, facts in run.facts.items() if name != run.state}
    for edge in graph.edges:
        for read in sorted(program.guard_names.get(edge.id, ())):
            owner, _, name = read.partition(".")
            if owner in left and owner != edge.source:
                why = _misfit(left[owner], name, program.type_from(owner))
                if why:
                    yield (*edge.path, "guard"), read, owner, why


def _misfit(left: dict[str, object], name: str, datatype: DataType | None) -> str:
    if name not in left:
        return "nothing of that name"
    known, value = datatype.at(name.split(".")) if datatype else None, left[name]
    if known is None or (value is None and (known.optional or not known.required)):
        return ""
    return f"a value that does not fit: {fault}" if (fault := default_fault(value, known)) else ""
