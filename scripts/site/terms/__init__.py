"""The pictures of the glossary: `pictures.PICTURES` has one for each term of docs/TERMS.md.

`shots` cuts a piece out of the picture of a run, at a moment of a scenario, and marks what the term means. `cards`
draws what no moment shows: graphs, time lines, tables, files and key groups.
"""
