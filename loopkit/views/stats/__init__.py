"""Statistics of runs, and of all runs of a machine, as tables and rows."""
