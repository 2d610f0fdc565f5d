"""`obsmask doctor`: a file for each kind of check; `examination` runs them by topic."""

from addon.commands.doctor.examination import command

__all__ = ["command"]
