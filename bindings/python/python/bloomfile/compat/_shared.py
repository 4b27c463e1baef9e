"""What both modules need: filters in files of their own, and keys of their objects."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, Optional, Union

import bloomfile

AnyPath = Union[str, "os.PathLike[str]"]


def encoded(item: Any) -> Any:
    """The key of an object: a whole number is told from the text of its digits."""
    if isinstance(item, int) and not isinstance(item, bool):
        return b"\x00int " + str(item).encode()
    return item


class Temporary:
    """A file that goes when its owner does."""

    def __init__(self, owner: object) -> None:
        folder = tempfile.mkdtemp(prefix="bloomfile-")
        self.path = os.path.join(folder, "filter.bloom")
        self._finish = weakref.finalize(owner, self._remove, folder, os.getpid())

    @staticmethod
    def _remove(folder: str, process: int) -> None:
        # A forked child leaves the files of its parent alone.
        if os.getpid() != process:
            return
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def contents(path: AnyPath) -> bytes:
    """The bytes of a filter that may be open for writing, as a file that was closed."""
    with tempfile.TemporaryDirectory(prefix="bloomfile-") as folder:
        copy = os.path.join(folder, "copy.bloom")
        bloomfile.merge(copy, [path])
        with open(copy, "rb") as file:
            return file.read()


def write(path: AnyPath, data: bytes, perm: Optional[int] = None) -> None:
    """Makes a file of bytes, in place of one that is there."""
    temporary = f"{os.fspath(path)}.new"
    with open(temporary, "wb") as file:
        file.write(data)
    if perm is not None:
        os.chmod(temporary, perm)
    os.replace(temporary, path)
