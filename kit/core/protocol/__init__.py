"""The protocol's vocabulary: elements, messages, events, commands, and the values in them."""
