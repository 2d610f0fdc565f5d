"""JSONTestSuite through the core: what is JSON is masked, and no byte elsewhere is changed."""

import pytest

from masking.errors import WireError
from tests.support.json_suite import FORMATS, POLICY, File, build_cases, read_files
from tests.support.priced import rewrite_request

FILES = read_files()


def test_the_suite_is_whole() -> None:
    assert [95, 188, 35] == [sum(file.name[0] == kind for file in FILES) for kind in "yni"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_harmed_nowhere(file: File) -> None:
    wrong = []
    for writer in FORMATS:
        for case in build_cases(file, writer):
            try:
                arrived = rewrite_request(case.body, POLICY, writer.wire, case.path).body
            except WireError:
                arrived = case.body
            if arrived not in case.expected:
                wrong.append(f"{writer.name}, {case.name}")
    assert [] == wrong
