"""From a program as written to its contractions and one map for each result behind them."""
