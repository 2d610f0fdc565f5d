"""The faults of `tests.mutations` can still be made; whether they are noticed takes minutes."""

from pathlib import Path

import pytest

from tests.mutations import MUTATIONS, Mutation, apply
from tests.support.places import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_made(mutation: Mutation, tmp_path: Path) -> None:
    copy = tmp_path / mutation.file
    copy.parent.mkdir(parents=True)
    copy.write_bytes((ROOT / mutation.file).read_bytes())
    apply(mutation, tmp_path)
    assert mutation.new in copy.read_text(encoding="utf-8")


def test_a_fault_that_no_longer_applies_is_no_silence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"0 times in gone\.py"):
        apply(Mutation("a fault", "gone.py", "old", "new"), tmp_path)
