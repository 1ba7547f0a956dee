"""Events from acceptance to their states, statistics and retention."""
