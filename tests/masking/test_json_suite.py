"""JSONTestSuite through the core: what is JSON is masked, and no byte elsewhere is changed."""

from collections.abc import Sequence

import pytest

from masking.errors import WireError
from tests.support.json_suite import FORMATS, POLICY, File, build_cases, read_files
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import Writer

FILES = read_files()


def test_the_suite_is_whole() -> None:
    assert [95, 188, 35] == [sum(file.name[0] == kind for file in FILES) for kind in "yni"]


each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)


@as_one_test
@each_file
def test_a_file_is_harmed_nowhere(file: File) -> None:
    assert [] == find_harmed(file, FORMATS[:1])


@pytest.mark.thorough
@as_one_test
@each_file
def test_nor_is_it_in_another_format(file: File) -> None:
    assert [] == find_harmed(file, FORMATS[1:])


def find_harmed(file: File, writers: Sequence[Writer]) -> list[str]:
    """Return the names of the cases of which other bytes arrive than must."""
    wrong = []
    for writer in writers:
        for case in build_cases(file, writer):
            try:
                arrived = rewrite_request(case.body, POLICY, writer.wire, case.path).body
            except WireError:
                arrived = case.body
            if arrived not in case.expected:
                wrong.append(f"{writer.name}, {case.name}")
    return wrong
