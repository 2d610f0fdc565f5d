"""The table of vendors: no two rows claim one name."""

from collections import Counter

from addon.vendors import VENDORS


def test_a_name_belongs_to_one_vendor() -> None:
    for names in (
        [name for vendor in VENDORS for name in vendor.names],
        [name for vendor in VENDORS for name in vendor.litellm],
        [name for vendor in VENDORS for name in vendor.variables],
        [vendor.host for vendor in VENDORS],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []
