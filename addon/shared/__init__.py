"""What every engine takes to mask requests, whichever carries them: no engine is known here."""
