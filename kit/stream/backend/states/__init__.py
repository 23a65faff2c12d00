"""The kinds of keyed state, and the tables behind them."""
