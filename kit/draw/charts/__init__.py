"""Charts of figures: phases, comparisons, growth, live jobs."""
