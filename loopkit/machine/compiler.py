"""Machine → python-statemachine: the engine decides which edge is taken, and nothing else.

The only importer of `statemachine`. One instance for each definition serves all runs: a decision
sets the active state, sends one event, and returns the chosen edge.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from statemachine import StateChart
from statemachine.exceptions import TransitionNotAllowed
from statemachine.io import create_machine_class_from_definition

from loopkit.machine.edges import Edge, EdgeEvent
from loopkit.machine.graph import Graph

STATE_PREFIX = "s_"
MACROSTEP_MEMORY = 4096


class NoEdge(Exception):
    """No edge out of a state is enabled for an event."""


class Decider:
    """The compiled machine of one graph. Not thread-safe: each thread needs its own."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._bits: tuple[bool, ...] = ()
        self._class = self._compile()
        self._instance = self._class()
        # A decision depends on its arguments alone, so the engine makes each one once.
        self.decide = lru_cache(MACROSTEP_MEMORY)(self._decide)

    def _decide(self, state: str, event: EdgeEvent, bits: tuple[bool, ...]) -> Edge:
        """The edge that is taken out of `state`; `bits` says which of its edges are enabled.

        Raises NoEdge where none is.
        """
        self._bits = bits
        machine = self._instance
        machine.current_state_value = STATE_PREFIX + state
        try:
            index = machine.send(event)
        except TransitionNotAllowed as error:
            raise NoEdge(f"no edge of `{state}` is enabled for `{event}`") from error
        entered = machine.current_state_value
        edge = self._graph.on(state, event)[index] if isinstance(index, int) else None
        if edge is None or entered != STATE_PREFIX + edge.target:
            # Its state is unknown now; a new instance costs half a millisecond.
            self._instance = self._class()
            message = f"the engine answered {index!r} in {entered!r} for `{event}` of `{state}`"
            raise AssertionError(message)
        return edge

    def _compile(self) -> type[StateChart[Any]]:
        states = {STATE_PREFIX + name: self._state(name) for name in self._graph.states}
        return create_machine_class_from_definition(
            f"Machine_{self._graph.machine.label}",
            states,
            atomic_configuration_update=True,
            catch_errors_as_events=False,
            allow_event_without_transition=False,
            enable_self_transition_entries=True,
            validate_disconnected_states=False,
            validate_trap_states=False,
            validate_final_reachability=False,
        )

    def _state(self, name: str) -> Any:
        events = dict.fromkeys(edge.event for edge in self._graph.outgoing[name])
        transitions = [
            self._transition(edge, index)
            for event in events
            for index, edge in enumerate(self._graph.on(name, event))
        ]
        # Final states are plain sinks here, so the shared instance never ends. The definition
        # says whether a run has ended.
        return {
            "value": STATE_PREFIX + name,
            "initial": name == self._graph.machine.start,
            "transitions": transitions,
        }

    def _transition(self, edge: Edge, index: int) -> dict[str, Any]:
        def is_enabled() -> bool:
            return self._bits[index]

        def choose() -> int:
            return index

        return {
            "event": edge.event,
            "target": STATE_PREFIX + edge.target,
            "cond": _with_name(is_enabled, edge.guard or "always", edge.id, "cond"),
            "on": _with_name(choose, edge.id, edge.id, "on"),
        }


def _with_name(
    function: Callable[[], Any], name: str, edge_id: str, role: str
) -> Callable[[], Any]:
    """`function` renamed: diagrams show its name, and the engine's caches need a unique one."""
    function.__name__ = name
    function.__qualname__ = f"{edge_id}.{role}"
    return function
