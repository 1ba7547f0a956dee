"""Hidden Markov model of purchase intent, which tells causes from mere signs of intent."""
