"""What is remembered of a conversation from one request to the next."""
