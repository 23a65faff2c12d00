"""The parts that all widgets share: buttons, lists, code to copy, calls on the kernel's loop."""
