"""Runs as pages: in a file that stands alone, and in the viewer that a server shows."""
