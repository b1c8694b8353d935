"""Runs as pages: a self-contained file, and the viewer of a server."""
