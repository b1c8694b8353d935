"""What servers offer as tools, over any protocol: machines, outside agents, validators."""
