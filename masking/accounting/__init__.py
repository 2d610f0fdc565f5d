"""What a conversation costs, with masking and without."""
