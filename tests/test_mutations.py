"""The faults of `tests.tools.mutations` can still be made, and are noticed."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.marks import as_one_test
from tests.support.places import ROOT
from tests.tools.mutations import MUTATIONS, Mutation, apply, copy_tree, run_tests, try_mutation

IN_EACH = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


@as_one_test
@IN_EACH
def test_a_fault_can_be_made(mutation: Mutation) -> None:
    with TemporaryDirectory() as folder:
        copy = Path(folder) / mutation.file
        copy.parent.mkdir(parents=True)
        copy.write_bytes((ROOT / mutation.file).read_bytes())
        apply(mutation, Path(folder))
        assert mutation.new in copy.read_text(encoding="utf-8")


@as_one_test
@IN_EACH
def test_the_tests_that_must_notice_it_are_there(mutation: Mutation) -> None:
    file, _, test = mutation.related.partition("::")
    assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8")


def test_each_fault_has_a_name_of_its_own() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_a_fault_that_no_longer_applies_is_no_silence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0 times in gone\.py"):
        apply(Mutation("a fault", "gone.py", "old", "new", "tests"), tmp_path)


# Whether they are noticed.


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    copy_tree(tree)
    return tree


@pytest.fixture(scope="module")
def run_unchanged(tree: Path) -> Callable[[str], tuple[int, str]]:
    """Run tests of the tree without any fault, each of them once."""
    return cache(lambda tests: run_tests(tree, [tests]))


@pytest.mark.thorough
@IN_EACH
def test_a_fault_is_noticed(
    mutation: Mutation, tree: Path, run_unchanged: Callable[[str], tuple[int, str]]
) -> None:
    code, failure = run_unchanged(mutation.related)
    assert code == 0, failure
    is_noticed, failure = try_mutation(mutation, tree)
    assert is_noticed, failure
