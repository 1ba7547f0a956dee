"""Models that compare whole paths: Markov, Fractribution, conversion-rate Shapley."""
