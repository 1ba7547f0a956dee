"""Credits compared across Markov orders and lookbacks."""
