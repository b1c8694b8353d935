"""Validators: the rules that judge by themselves, and what a judge is asked and answers."""
