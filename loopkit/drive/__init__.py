"""The driver of a run: does the work of the active state and appends what came of it."""
