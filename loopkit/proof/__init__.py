"""The proof: the outcomes of each state, and the bounds of all runs."""
