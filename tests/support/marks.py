"""Marks of cases."""

import functools
import inspect
from collections import ChainMap
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from _pytest._io.saferepr import saferepr
from _pytest.mark import Mark, ParameterSet

Test = Callable[..., None]


def thorough(*values: object) -> ParameterSet:
    """Return a case that only repeats what another one tests, for thorough runs."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def as_one_test(test: Test) -> Test:
    """Run all cases of a parametrized test as one test, which names each case that fails.

    A test by itself costs some four milliseconds in pytest and between its processes. So where a
    case takes less, its cases are one test. They share no fixture, so none can disturb another;
    `tmp_path` is a folder of its own for each. Stands above `pytest.mark.parametrize`. Raises
    TypeError if the test wants another fixture, or a case has marks.
    """
    marks: list[Mark] = getattr(test, "pytestmark", [])
    axes = [_read_cases(mark) for mark in reversed(marks) if mark.name == "parametrize"]
    cases = [
        ("-".join(name for name, _ in chosen), dict(ChainMap(*(given for _, given in chosen))))
        for chosen in product(*axes)
    ]
    wanted = inspect.signature(test).parameters.keys()
    folders = wanted & {"tmp_path"}
    if any(given.keys() != wanted - folders for _, given in cases):
        raise TypeError(f"{test.__name__} wants a fixture")

    @functools.wraps(test)
    def try_all(**fixtures: Path) -> None:
        failures: list[BaseException] = []
        for number, (name, given) in enumerate(cases):
            own = {each: folder / f"{number}" for each, folder in fixtures.items()}
            try:
                for folder in own.values():
                    folder.mkdir()
                test(**given, **own)
            except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - raised below
                failure.add_note(f"in the case {name}")
                failures.append(failure)
        if failures:
            raise BaseExceptionGroup(f"{len(failures)} of {len(cases)} cases failed", failures)

    vars(try_all)["__signature__"] = inspect.Signature(
        [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in folders]
    )
    vars(try_all)["pytestmark"] = [mark for mark in marks if mark.name != "parametrize"]
    return try_all


def _read_cases(mark: Mark) -> list[tuple[str, dict[str, Any]]]:
    """Return the name of each case, and its arguments."""
    names, values = mark.args
    arguments = [each.strip() for each in names.split(",")] if isinstance(names, str) else names
    ids = mark.kwargs.get("ids") or saferepr
    if not callable(ids):
        ids = [*ids]
    found = []
    for number, value in enumerate(values):
        case = ParameterSet.extract_from(value, force_tuple=len(arguments) == 1)
        if case.marks:
            raise TypeError(f"a case of {arguments} has marks")
        name = "-".join(str(ids(each)) for each in case.values) if callable(ids) else ids[number]
        given = dict(zip(arguments, case.values, strict=True))
        found.append((case.id if isinstance(case.id, str) else name, given))
    return found
