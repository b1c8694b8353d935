"""Servers that speak MCP: a toolbox answers, whatever the transport."""
