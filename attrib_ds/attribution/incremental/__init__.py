"""Incremental models: estimate the conversions that would not have happened without a node."""
