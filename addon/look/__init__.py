"""How pages look: the live one, the history, and the report of a replay."""
