from operators.facts import PlainFacts as Facts

__all__ = ["Facts"]
