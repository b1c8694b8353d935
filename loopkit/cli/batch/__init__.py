"""Batches: one machine for every line of a file, many lines at a time, in one process."""
