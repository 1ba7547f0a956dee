"""Pairs of texts that name two campaigns, although what is readable in them is the same or nothing."""

from typing import Final

APART: Final = [
    ("Скидки 2025", "Весна 2025"),
    ("C++ course", "C# course"),
    ("50% off", "50 off"),
    ("a" * 128 + "b", "a" * 128 + "c"),
    ("春", "夏"),
    ("Frühling", "Fr-hling"),
]
