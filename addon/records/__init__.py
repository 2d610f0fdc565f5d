"""Records of requests: their fields, their file, their sums, and what is said of them."""
