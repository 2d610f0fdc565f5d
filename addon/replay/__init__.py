"""What recorded conversations would have cost, and what masking would have done to them."""
