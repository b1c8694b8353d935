"""Servers: what loopkit offers to other programs while it runs."""
