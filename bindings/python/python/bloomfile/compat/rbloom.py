"""The class of rbloom, on bloomfile.

>>> from bloomfile.compat.rbloom import Bloom
>>> bf = Bloom(200, 0.01)
>>> bf.add("hello")
>>> "hello" in bf, "world" in bf
(True, False)
"""

from __future__ import annotations

import builtins
from typing import Any, Callable, Iterable, Optional, Union

import bloomfile

from . import _shared

__all__ = ["Bloom"]


class Bloom:
    """A Bloom filter with the methods of ``set``; see rbloom's documentation.

    Without ``hash_func`` items are ``str``, bytes and whole numbers, which are hashed by themselves and
    alike in all processes; with one, items are whatever it takes.
    """

    def __init__(
        self,
        expected_items: int,
        false_positive_rate: float,
        hash_func: Callable[[Any], int] = builtins.hash,
    ) -> None:
        self._start(hash_func)
        self._items, self._rate = expected_items, false_positive_rate
        self._filter = self._create()

    def _start(self, hash_func: Callable[[Any], int]) -> None:
        if not callable(hash_func):
            raise TypeError("hash_func must be callable")
        self._hash_func = hash_func
        self._file = _shared.Temporary(self)

    def _create(self) -> bloomfile.Filter:
        return bloomfile.create(
            self._file.path, capacity=self._items, fpr=self._rate, replace=True
        )

    @classmethod
    def _of_bytes(cls, data: bytes, hash_func: Callable[[Any], int]) -> Bloom:
        bloom = cls.__new__(cls)
        bloom._start(hash_func)
        _shared.write(bloom._file.path, data)
        bloom._filter = bloomfile.open(bloom._file.path, "r+")
        found = bloomfile.inspect(bloom._file.path)
        bloom._items, bloom._rate = found.capacity or 1, found.target_rate or 0.01
        return bloom

    def _key(self, item: Any) -> Any:
        if self._hash_func is builtins.hash:
            return _shared.encoded(item)
        return self._hash_func(item).to_bytes(16, "little", signed=True)

    def _keys(self, items: Iterable[Any]) -> Any:
        # Lists of texts need no Python for each.
        if self._hash_func is builtins.hash and isinstance(items, (list, tuple)):
            if all(type(item) is str or type(item) is bytes for item in items):
                return items
        return map(self._key, items)

    @property
    def size_in_bits(self) -> int:
        return bloomfile.inspect(self._file.path).segments[0].cells

    @property
    def hash_func(self) -> Callable[[Any], int]:
        return self._hash_func

    @property
    def approx_items(self) -> float:
        return self._filter.estimate

    @classmethod
    def load(cls, filepath: _shared.AnyPath, hash_func: Callable[[Any], int]) -> Bloom:
        with open(filepath, "rb") as file:
            return cls.load_bytes(file.read(), hash_func)

    def save(self, filepath: _shared.AnyPath) -> None:
        bloomfile.merge(filepath, [self._file.path], replace=True)

    @classmethod
    def load_bytes(cls, data: bytes, hash_func: Callable[[Any], int]) -> Bloom:
        return cls._of_bytes(data, hash_func)

    def save_bytes(self) -> bytes:
        return _shared.contents(self._file.path)

    def add(self, obj: Any, /) -> None:
        self._filter.add(self._key(obj))

    def __contains__(self, obj: Any) -> bool:
        return self._key(obj) in self._filter

    def __bool__(self) -> bool:
        return len(self._filter) > 0

    def __repr__(self) -> str:
        return f"<Bloom size_in_bits={self.size_in_bits} approx_items={self.approx_items:.1f}>"

    def _same(self, other: Bloom) -> Bloom:
        if not isinstance(other, Bloom):
            raise TypeError(f"this takes a Bloom, not {type(other).__name__}")
        alike = (self._items, self._rate) == (other._items, other._rate)
        if not alike or self._hash_func is not other._hash_func:
            raise ValueError("the filters differ in size or hash function")
        return other

    def _of_iterable(self, items: Union[Iterable[Any], Bloom]) -> Bloom:
        if isinstance(items, Bloom):
            return self._same(items)
        bloom = Bloom(self._items, self._rate, self._hash_func)
        bloom._filter.update(bloom._keys(items))
        return bloom

    def __or__(self, other: Bloom) -> Bloom:
        return self.union(self._same(other))

    def __ior__(self, other: Bloom) -> Bloom:
        self.update(self._same(other))
        return self

    def __and__(self, other: Bloom) -> Bloom:
        return self.intersection(self._same(other))

    def __iand__(self, other: Bloom) -> Bloom:
        self.intersection_update(self._same(other))
        return self

    def union(self, *others: Union[Iterable[Any], Bloom]) -> Bloom:
        bloom = self.copy()
        bloom.update(*others)
        return bloom

    def update(self, *others: Union[Iterable[Any], Bloom]) -> None:
        for other in others:
            if isinstance(other, Bloom):
                self._filter |= self._same(other)._filter
            else:
                self._filter.update(self._keys(other))

    def intersection(self, *others: Union[Iterable[Any], Bloom]) -> Bloom:
        bloom = self.copy()
        bloom.intersection_update(*others)
        return bloom

    def intersection_update(self, *others: Union[Iterable[Any], Bloom]) -> None:
        blooms = [self._of_iterable(other) for other in others]
        if not blooms:
            return
        paths: list[_shared.AnyPath] = [bloom._file.path for bloom in [self, *blooms]]
        result = _shared.Temporary(self)
        bloomfile.intersect(result.path, paths)
        self._filter.close()
        self._file, self._filter = result, bloomfile.open(result.path, "r+")

    def _relation(self, other: Bloom) -> Optional[str]:
        return bloomfile.compare(self._file.path, self._same(other)._file.path).relation

    def __lt__(self, other: Bloom) -> bool:
        return self._relation(other) == "subset"

    def __gt__(self, other: Bloom) -> bool:
        return self._relation(other) == "superset"

    def __le__(self, other: Bloom) -> bool:
        return self._relation(other) in ("subset", "equal")

    def __ge__(self, other: Bloom) -> bool:
        return self._relation(other) in ("superset", "equal")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bloom):
            return NotImplemented
        return self._relation(other) == "equal"

    __hash__ = None  # type: ignore[assignment]

    def issubset(self, other: Bloom, /) -> bool:
        return self <= other

    def issuperset(self, other: Bloom, /) -> bool:
        return self >= other

    def clear(self) -> None:
        self._filter.close()
        self._filter = self._create()

    def copy(self) -> Bloom:
        return self._of_bytes(self.save_bytes(), self._hash_func)
