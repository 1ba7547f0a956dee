"""Paths: conversions joined with the touchpoints before them."""
