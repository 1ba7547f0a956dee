"""Paths: conversions joined with the touchpoints in their lookback windows."""
