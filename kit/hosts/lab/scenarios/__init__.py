"""Scenarios: text files of actions and expected outcomes."""
