"""Runs the functions named test_... under tests/ and shows the traceback of each that fails.

    python3 run_tests.py                   every test, a line for each
    python3 run_tests.py sheet formats     those in test_sheet.py and test_formats.py
    python3 run_tests.py --quiet           only what fails, and the count
"""

import importlib
import pathlib
import sys
import traceback

ROOT = pathlib.Path(__file__).parent


def tests(wanted):
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        if wanted and path.stem.removeprefix("test_") not in wanted:
            continue
        module = importlib.import_module(f"tests.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                yield f"{path.stem}.{name}", test


def main(arguments):
    quiet = "--quiet" in arguments
    failed = passed = 0
    for name, test in tests([each for each in arguments if each != "--quiet"]):
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
    sys.exit(main(sys.argv[1:]))
