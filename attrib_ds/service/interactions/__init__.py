"""Interactions: search, nodes, insights and offline interactions."""
