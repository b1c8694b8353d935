"""What servers offer as tools, whoever speaks with them: machines, outside agents, validators."""
