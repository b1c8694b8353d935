"""The engine: a run's records, its state, the findings ledger, and the next step."""
