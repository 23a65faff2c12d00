"""The labs."""
