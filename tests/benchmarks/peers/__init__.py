"""Ours beside other proxies that make requests smaller: `python -m tests.benchmarks.peers`."""
