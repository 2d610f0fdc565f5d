"""What the hooks of `addon/mask.py` hand over to."""
