"""What may be done to a request, each strategy in files of its own."""
