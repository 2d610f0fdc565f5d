"""What the project promises in figures, each a command: `python -m tests.benchmarks.NAME`."""
