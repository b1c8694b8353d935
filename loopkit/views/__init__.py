"""Views: what people see of a run, folded from its events and its state."""
