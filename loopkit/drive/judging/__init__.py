"""Judging in a run: judges and their opinions, the commands of rules, and baselines."""
