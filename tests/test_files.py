"""Files are replaced as a whole: the new one or the old one, and nothing beside it."""

import errno
import os
import stat

import pytest

from probi._files import replacing, write_atomically

needs_posix = pytest.mark.skipif(os.name != "posix", reason="pipes, devices, permissions and locks of POSIX")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "x"
    for data in (b"one", b"", b"three" * 1000):
        write_atomically(path, data)
        assert path.read_bytes() == data
        assert names(tmp_path) == ["x"]


def test_nobody_sees_half_a_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path  # a rename from another disk would not be atomic
        assert temporary.name.startswith(".")
        temporary.write_bytes(b"new, half")
        assert path.read_bytes() == b"old"
        temporary.write_bytes(b"new, whole")
    assert path.read_bytes() == b"new, whole"


def test_two_writers_do_not_meet(tmp_path):
    with replacing(tmp_path / "x") as one, replacing(tmp_path / "x") as other:
        assert one != other
        one.write_bytes(b"1")
        other.write_bytes(b"2")
    assert (tmp_path / "x").read_bytes() == b"1"  # the outer one ends last
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def fail():
        with replacing(path) as temporary:
            temporary.write_bytes(b"new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path, monkeypatch, call):
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(*((type(path), "write_bytes") if call == "write" else (os, call)), full)
        with pytest.raises(OSError, match="No space left") as caught:
            write_atomically(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_bytes_are_on_the_disk_before_the_name_and_then_the_name(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def note_replace(source, target, **options):
        done.append("name")
        replace(source, target, **options)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "x", b"new")
    assert done == ["file", "name", "folder"]


def test_a_name_that_cannot_be_written_is_told_as_it_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "no" / "x", b"new")
    assert caught.value.filename == str(tmp_path / "no" / "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_atomically(tmp_path / "folder", b"new")
    assert caught.value.filename == str(tmp_path / "folder")
    assert names(tmp_path) == ["folder"]


def test_trouble_with_another_file_keeps_its_name(tmp_path):
    def read_another():
        with replacing(tmp_path / "x") as temporary:
            temporary.write_bytes((tmp_path / "other").read_bytes())

    with pytest.raises(FileNotFoundError) as caught:
        read_another()
    assert str(caught.value.filename) == str(tmp_path / "other")


def test_trouble_that_says_no_number(tmp_path):
    """NumPy says of a full disk only how many bytes were written."""

    def fail():
        with replacing(tmp_path / "x") as temporary:
            temporary.write_bytes(b"new")
            raise OSError("80 requested and 0 written")

    with pytest.raises(OSError, match=r"x: 80 requested and 0 written$"):
        fail()


@needs_posix
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomically(path, b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@needs_posix
def test_a_device_is_written_to_and_an_error_names_it(tmp_path):
    path = tmp_path / "full"
    path.symlink_to("/dev/full")  # a link, so that a mistake replaces no device
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically(path, b"new")
    assert caught.value.filename == str(path)
    assert stat.S_ISCHR(path.stat().st_mode)


@needs_posix
def test_a_link_stays_a_link_and_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "secret").write_bytes(b"old")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "secret").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


@needs_posix
def test_what_a_killed_process_left_is_removed_but_nothing_that_is_written_now(tmp_path):
    left, other = tmp_path / f".x.{'0' * 16}.part", tmp_path / f".y.{'0' * 16}.part"
    left.write_bytes(b"half")
    other.write_bytes(b"half")
    with replacing(tmp_path / "x") as one:
        one.write_bytes(b"1")
        assert not left.exists()
        write_atomically(tmp_path / "x", b"2")
        assert one.exists()
    assert (tmp_path / "x").read_bytes() == b"1"
    assert names(tmp_path) == [other.name, "x"]
