"""Guided missions: what to make happen in a lab, a check that reads the run's facts, hints, and a solution."""
