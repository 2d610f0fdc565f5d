"""What is no test of ours: the scratch projects, which bring tests of their own."""

collect_ignore = ["projects"]
