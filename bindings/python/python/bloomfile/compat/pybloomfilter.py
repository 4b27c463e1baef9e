"""The class of pybloomfiltermmap3, on bloomfile.

>>> from bloomfile.compat import pybloomfilter
>>> fruit = pybloomfilter.BloomFilter(100000, 0.1, "words.bloom")
>>> fruit.update(("apple", "pear", "orange", "apple"))
>>> len(fruit)
3
"""

from __future__ import annotations

import array
import base64
import os
import warnings
import zlib
from typing import Any, Iterable, List, Optional, Union

import bloomfile

from . import _shared

__all__ = ["BloomFilter"]

_RATE_ERROR = "error_rate allowable range (0.0, 1.0) %f"


class BloomFilter:
    """A filter in a file, or without a ``filename`` in one of its own; see pybloomfiltermmap3.

    ``hash_seeds`` become the seed of the file; the number of hashes follows from ``error_rate``.
    """

    _filter: Union[bloomfile.Filter, bloomfile.Reader]

    def __init__(
        self,
        capacity: int,
        error_rate: float,
        filename: Optional[str] = None,
        perm: Optional[int] = 0o755,
        hash_seeds: Optional[Iterable[int]] = None,
        data_array: Optional[bytes] = None,
    ) -> None:
        if data_array is not None:
            raise NotImplementedError("give the bytes of a bloomfile to from_base64 instead")
        if not 0 < error_rate < 1:
            raise ValueError(_RATE_ERROR % error_rate)
        self._capacity, self._error_rate = capacity, error_rate
        self._seeds: Optional[List[int]] = None
        seed = 0
        if hash_seeds:
            self._seeds = list(hash_seeds)
            for part in self._seeds:
                if not isinstance(part, int) or part < 0 or part.bit_length() > 32:
                    raise ValueError(
                        f"invalid hash seed '{part}', must be >= 0 and up to 32 bits in size"
                    )
            seed = bloomfile.Hasher().hash(array.array("I", self._seeds).tobytes())
        self._seed = seed
        self._place(filename)
        self._filter = self._create()
        if filename is not None and perm is not None:
            os.chmod(self._path, perm)

    def _place(self, filename: Optional[str]) -> None:
        self._in_memory = filename is None
        self._file = _shared.Temporary(self) if filename is None else None
        self._path = self._file.path if self._file else os.path.abspath(str(filename))

    def _create(self) -> bloomfile.Filter:
        return bloomfile.create(
            self._path,
            capacity=self._capacity,
            fpr=self._error_rate,
            seed=self._seed,
            metadata=None if self._seeds is None else {"seeds": str(self._seeds)[1:-1]},
            replace=True,
        )

    @classmethod
    def _opened(cls, filename: Optional[str], mode: str, data: Optional[bytes]) -> BloomFilter:
        instance = cls.__new__(cls)
        instance._place(filename)
        if data is not None:
            _shared.write(instance._path, data)
        path = instance._path
        if "w" in mode:
            instance._filter = bloomfile.open(path, "r+")
        else:
            instance._filter = bloomfile.open(path)
        found = bloomfile.inspect(path)
        instance._capacity, instance._error_rate = found.capacity or 0, found.target_rate or 0.0
        seeds = found.metadata.get("seeds")
        instance._seeds = None if seeds is None else [int(seed) for seed in seeds.split(",")]
        instance._seed = found.seed
        return instance

    @classmethod
    def open(cls, filename: str, mode: str = "rw") -> BloomFilter:
        """Opens a file that is there."""
        return cls._opened(filename, mode, None)

    def __reduce__(self) -> Any:
        if not self._in_memory:
            return (_reopened, (self._path, "r" if self.read_only else "rw"))
        return (_of_bytes, (_shared.contents(self._path),))

    def _segment(self) -> bloomfile.Segment:
        self._assert_open()
        return bloomfile.inspect(self._path).segments[0]

    @property
    def bit_array(self) -> int:
        """The bits as one whole number."""
        return int.from_bytes(self.data_array, byteorder="big", signed=False)

    @property
    def data_array(self) -> bytes:
        """The bits as bytes."""
        segment = self._segment()
        with open(self._path, "rb") as file:
            file.seek(segment.offset + segment.table_bytes)
            return file.read(segment.data_bytes)

    @property
    def hash_seeds(self) -> array.array[int]:
        """The seeds that were given; otherwise the two halves of the file's seed."""
        halves = [self._seed & 0xFFFFFFFF, self._seed >> 32]
        return array.array("I", halves if self._seeds is None else self._seeds)

    @property
    def capacity(self) -> int:
        self._assert_open()
        return self._capacity

    @property
    def error_rate(self) -> float:
        self._assert_open()
        return self._error_rate

    @property
    def num_hashes(self) -> int:
        return int(self._segment().geometry["rows"])

    @property
    def num_bits(self) -> int:
        return self._segment().cells

    @property
    def bit_count(self) -> int:
        return self._segment().ones

    @property
    def approx_len(self) -> int:
        self._assert_open()
        return round(bloomfile.inspect(self._path).keys)

    @property
    def name(self) -> bytes:
        warnings.warn("use filename instead", PendingDeprecationWarning)
        return self.filename.encode()

    @property
    def filename(self) -> str:
        self._assert_open()
        if self._in_memory:
            raise NotImplementedError("Cannot access .name on an in-memory BloomFilter")
        return self._path

    @property
    def read_only(self) -> bool:
        self._assert_open()
        return isinstance(self._filter, bloomfile.Reader)

    def __repr__(self) -> str:
        self._assert_open()
        return (
            f"<{type(self).__name__} capacity: {self._capacity}, error: {self._error_rate:0.3f}, "
            f"num_hashes: {self.num_hashes}>"
        )

    def sync(self) -> None:
        self._writable().sync()

    def clear_all(self) -> None:
        """Takes all items out."""
        self._writable().close()
        self._filter = self._create()

    def __contains__(self, item: Any) -> bool:
        self._assert_open()
        return _shared.encoded(item) in self._filter

    def add(self, item: Any) -> bool:
        """Adds an item; whether it was there before."""
        return not self._writable().add(_shared.encoded(item))

    def update(self, iterable: Iterable[Any]) -> None:
        items: Any = iterable
        if not isinstance(items, (list, tuple)) or any(isinstance(item, int) for item in items):
            items = map(_shared.encoded, iterable)
        self._writable().update(items)

    def __len__(self) -> int:
        self._assert_open()
        return len(self._filter)

    def __bool__(self) -> bool:
        return len(self) > 0

    def close(self) -> None:
        self._filter.close()

    def copy_template(self, filename: str, perm: int = 0o755) -> BloomFilter:
        """An empty filter that can be joined with this one."""
        self._assert_open()
        return BloomFilter(self._capacity, self._error_rate, filename, perm, self._seeds)

    def copy(self, filename: str) -> BloomFilter:
        """The same filter in another file."""
        if self._in_memory:
            raise NotImplementedError("Cannot call .copy on an in-memory BloomFilter")
        self._assert_open()
        _shared.write(filename, _shared.contents(self._path))
        return self.open(filename)

    def union(self, other: BloomFilter) -> BloomFilter:
        """Takes in all items of another filter."""
        filter = self._writable()
        self._assert_comparable(other)
        filter |= other._path
        return self

    def __ior__(self, other: BloomFilter) -> BloomFilter:
        return self.union(other)

    def intersection(self, other: BloomFilter) -> BloomFilter:
        """Keeps the items that are in another filter as well."""
        filter = self._writable()
        self._assert_comparable(other)
        result = _shared.Temporary(self)
        bloomfile.intersect(result.path, [self._path, other._path])
        filter.close()
        bloomfile.merge(self._path, [result.path], replace=True)
        self._filter = bloomfile.open(self._path, "r+")
        return self

    def __iand__(self, other: BloomFilter) -> BloomFilter:
        return self.intersection(other)

    def to_base64(self) -> bytes:
        """The file as text."""
        self._assert_open()
        return base64.b64encode(zlib.compress(_shared.contents(self._path), 9))

    @classmethod
    def from_base64(cls, filename: str, string: bytes, perm: int = 0o755) -> BloomFilter:
        """The filter of such a text, in a new file."""
        _shared.write(filename, zlib.decompress(base64.b64decode(string)), perm)
        return cls.open(filename)

    def _assert_open(self) -> None:
        if self._filter.closed:
            raise ValueError("I/O operation on closed file")

    def _writable(self) -> bloomfile.Filter:
        self._assert_open()
        if isinstance(self._filter, bloomfile.Reader):
            raise ValueError("Write operation on read-only file")
        return self._filter

    def _assert_comparable(self, other: BloomFilter) -> None:
        other._assert_open()
        mine = (self._capacity, self._error_rate, self._seed)
        if mine != (other._capacity, other._error_rate, other._seed):
            raise ValueError(
                "The two BloomFilter objects are not the same type (hint: use copy_template)"
            )


def _reopened(filename: str, mode: str) -> BloomFilter:
    return BloomFilter.open(filename, mode)


def _of_bytes(data: bytes) -> BloomFilter:
    return BloomFilter._opened(None, "rw", data)
