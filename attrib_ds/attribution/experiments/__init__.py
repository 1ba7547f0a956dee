"""Randomised holdouts, what they say of nodes, and how they are combined with models."""
