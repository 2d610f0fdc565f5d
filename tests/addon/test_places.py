"""Files and folders are private; a file is replaced whole or not at all."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from addon.places import (
    config_folder,
    data_folder,
    make_folder,
    open_private,
    read_regular,
    replace_file,
    state_folder,
    write_private,
)
from masking.errors import ConfigError

Write = Callable[[Path, bytes], None]
WRITERS = pytest.mark.parametrize("write", [write_private, replace_file])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_our_folders_are_where_the_system_has_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"CONFIG": config_folder, "STATE": state_folder, "DATA": data_folder}
    for name, find in folders.items():
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
        assert tmp_path / name / "observation-masking" == find()


def test_missing_folders_are_made_for_their_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [0o700, 0o700] == [mode(tmp_path / "a"), mode(tmp_path / "a" / "b")]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="cannot be made: File exists") as caught:
        make_folder(tmp_path / "file" / "inner" / "deeper")
    assert str(tmp_path / "file") == caught.value.filename


def test_a_pipe_that_nobody_uses_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.close(open_private(str(tmp_path / "pipe"), os.O_RDONLY))
    with pytest.raises(ConfigError, match=r"cannot read the price list .*: not a regular file"):
        read_regular(tmp_path / "pipe", "price list")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * 1_000_000)
    assert 1_000_000 == len(read_regular(path)[0])
    path.write_bytes(b"x" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than 1 MB"):
        read_regular(path)


@WRITERS
def test_a_new_file_is_private_and_whole_and_alone(write: Write, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "new", b"data")
    finally:
        os.umask(before)
    assert (0o600, b"data") == (mode(tmp_path / "new"), (tmp_path / "new").read_bytes())
    assert ["new"] == names(tmp_path)


@WRITERS
def test_a_file_is_replaced_by_another_one(write: Write, tmp_path: Path) -> None:
    """Whoever has opened the old file reads that to its end."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write(path, b"new")
        assert (b"old", b"new") == (reader.read(), path.read_bytes())


@WRITERS
def test_a_full_disk_leaves_the_old_file_and_is_put_down_to_it(
    write: Write, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "file"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/file'"):
            write(path, b"x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (b"old", ["file"]) == (path.read_bytes(), names(tmp_path))


@WRITERS
def test_a_folder_in_its_place_is_named_and_nothing_is_left(write: Write, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write(tmp_path / "taken", b"data")
    assert str(tmp_path / "taken") == caught.value.filename
    assert ["taken"] == names(tmp_path)


@WRITERS
def test_who_is_interrupted_leaves_nothing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "new", b"data")
    assert [] == names(tmp_path)


def test_a_file_of_ours_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"another's")
    (tmp_path / "link").symlink_to("target")
    write_private(tmp_path / "link", b"ours")
    assert (False, b"another's") == (
        (tmp_path / "link").is_symlink(),
        (tmp_path / "target").read_bytes(),
    )


def test_a_file_of_the_user_keeps_its_link_and_its_mode(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = tmp_path / "dotfiles" / "config.toml"
    target.write_bytes(b"old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (0o640, b"new") == (mode(target), target.read_bytes())


def test_a_file_of_the_user_gets_the_folders_that_it_is_in(tmp_path: Path) -> None:
    replace_file(tmp_path / "a" / "b" / "file", b"data")
    assert (0o700, 0o600) == (mode(tmp_path / "a"), mode(tmp_path / "a" / "b" / "file"))
