"""Every run that there can be: what each state can come to, and the bounds of all runs."""
