"""The tools that servers offer, over any protocol: machines, outside agents, validators."""
