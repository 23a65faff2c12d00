"""The protocol's vocabulary: elements, messages, events, commands, and the trace that records them."""
