"""What the recorded agents work on, and what they are asked."""
