"""Flink's serializers, read from their snapshots: names and types, never executed.

A checkpoint stores a snapshot of each serializer it was written with. `serializer_snapshots.read_serializer` parses
one into a `Type`, which then decodes values.
"""
