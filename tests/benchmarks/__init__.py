"""The figures that the project promises, a command for each: `python -m tests.benchmarks.NAME`."""
