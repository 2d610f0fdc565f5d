"""`obsmask`, command by command."""
