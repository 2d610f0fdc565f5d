"""What is measured: tokens and prices. Leaves, which know nothing of requests."""
