"""Agents behind LiteLLM: any model string, asked over the network."""
