"""Which settings would have cost least."""
