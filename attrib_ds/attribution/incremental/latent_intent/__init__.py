"""Tells what nodes cause from what only goes with the wish to buy, by a funnel of intents nobody observes."""
