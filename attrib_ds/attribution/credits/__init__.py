"""Credits of every model, and the reports made from them."""
