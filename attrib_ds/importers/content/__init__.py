"""What files of any source hold: their containers, columns and rows, read by content."""
