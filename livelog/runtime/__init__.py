"""Runtimes: what runs a plan. Operators and plans are the same for all of them."""
