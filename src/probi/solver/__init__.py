"""Solvers: first centers, Lloyd's alternation, swaps, and the two presets made of them."""
