"""Model agents: any model string of LiteLLM, called over the network."""
