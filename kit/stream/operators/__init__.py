"""Operators: sources, transforms, aggregates, windows, joins and process functions, all on Arrow batches."""
