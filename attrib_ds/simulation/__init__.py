"""Journeys with known truth, for judging models: what each channel caused is known because we made it so."""
