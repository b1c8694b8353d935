"""The work of a state, one module a kind: what an active state does before the machine decides."""
