"""The words of the protocol: elements, messages, events, commands, and the trace of them."""
