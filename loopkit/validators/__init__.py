"""Validators: the rules that judge by themselves, and how judges are asked and read."""
