"""Durable stores: where a driver records checkpoints and leadership for the next driver."""
