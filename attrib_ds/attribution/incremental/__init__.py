"""Models that estimate what would not have happened without a node."""
