"""How many examples a costly law is tried on: with the thorough profile all of them, with the quick one a fifth."""

from hypothesis import settings


def examples(number: int) -> int:
    """Return how many of a law's examples the profile of this run asks for, three at least."""
    return max(3, number * settings().max_examples // 100)
