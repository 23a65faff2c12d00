"""Windows of event time and joins over them."""
