"""Work: one module for each kind of state, for what it does before the machine decides."""
