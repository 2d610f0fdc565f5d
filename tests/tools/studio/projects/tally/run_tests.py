"""Runs every test_ function under tests/ and shows the traceback of each that fails."""

import importlib
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).parent


def tests():
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        module = importlib.import_module(f"tests.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                yield f"{path.stem}.{name}", test


def main(quiet):
    failed = passed = 0
    for name, test in tests():
        try:
            test()
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            print(traceback.format_exc())
        else:
            passed += 1
            if not quiet:
                print(f"ok     {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main("--quiet" in sys.argv))
