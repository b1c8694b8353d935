"""Judges: the prompt of each, and how verdict and findings are read from its answer."""
