"""Servers that speak MCP: what they answer is a toolbox's, whatever brings the messages."""
