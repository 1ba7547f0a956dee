"""Rule-based models, which weight the touchpoints of one conversion."""
