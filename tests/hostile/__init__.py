"""Hostile input for every command: texts, data, schemas, YAML, scenarios, journals and signals.

`python -m tests.hostile --count 20000` makes so many inputs, plays each in a forked process, and
tells of each that took more than two seconds of work, ended with exit code 70, or said more than
its input explains. A generator of one's own goes into the list in `generators.py`.
"""
