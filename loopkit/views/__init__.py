"""What people see of a run: folds over its events and its state."""
