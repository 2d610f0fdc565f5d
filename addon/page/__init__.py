"""The live page: what masking does and saves, while agents work."""
