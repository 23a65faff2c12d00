"""Pictures of traces and graphs: moments of a run as SVG, whole runs as a page to step through, charts."""
