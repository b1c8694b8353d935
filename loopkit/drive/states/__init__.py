"""The work of each kind of state; `performers` has the table of them."""
