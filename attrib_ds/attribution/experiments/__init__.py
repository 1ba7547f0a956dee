"""Randomised holdouts: plan one, measure effects with it, and combine it with models."""
