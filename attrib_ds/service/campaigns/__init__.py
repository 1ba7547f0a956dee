"""Integrations, campaigns, outlays and currency rates."""
