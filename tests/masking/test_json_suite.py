"""JSONTestSuite through the core: what is JSON is masked, and no byte elsewhere is changed."""

from collections.abc import Sequence

import pytest

from masking.errors import WireError
from tests.support.json_suite import FORMATS, POLICY, File, build_cases, read_files
from tests.support.marks import thorough
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import Writer

FILES = read_files()


def test_the_suite_is_whole() -> None:
    assert [95, 188, 35] == [sum(file.name[0] == kind for file in FILES) for kind in "yni"]


@pytest.mark.parametrize(
    "writers", [FORMATS[:1], thorough(FORMATS[1:])], ids=["one format", "others"]
)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_harmed_nowhere(file: File, writers: Sequence[Writer]) -> None:
    wrong = []
    for writer in writers:
        for case in build_cases(file, writer):
            try:
                arrived = rewrite_request(case.body, POLICY, writer.wire, case.path).body
            except WireError:
                arrived = case.body
            if arrived not in case.expected:
                wrong.append(f"{writer.name}, {case.name}")
    assert [] == wrong
