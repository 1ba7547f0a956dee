"""Ibis expressions over interactions and events, shared by the service and opened tables."""
