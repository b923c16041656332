"""How fast the engine is, and whether it stays so: one file per question. `python -m bench` runs them all."""
