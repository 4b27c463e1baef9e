import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Optional, Protocol, Union, final, overload

from typing_extensions import Buffer

from ._reports import (
    Built,
    BuiltPart,
    Comparison,
    Derivation,
    FilterStats,
    Inspection,
    ReaderStats,
    Verification,
)

__all__ = [
    "ArrowColumn",
    "Filter",
    "Hasher",
    "PartBuilder",
    "PartPlan",
    "Reader",
    "_reopen",
    "build",
    "compact",
    "compare",
    "create",
    "digest",
    "html_report",
    "inspect",
    "intersect",
    "join",
    "merge",
    "open",
    "plan_parts",
    "verify",
]

_Path = Union[str, os.PathLike[str]]
_Secret = Union[bytes, str, os.PathLike[str]]
_Key = Union[str, Buffer, int]
_Encoding = Literal["le64", "be64", "decimal"]
_Layout = Literal["line", "page", "rows", "flat", "sealed"]

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object = ..., /) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = ..., /) -> object: ...

_Keys = Union[Iterable[_Key], _ArrowArray, _ArrowStream, Buffer]

@final
class ArrowColumn:
    def __len__(self) -> int: ...
    def to_pylist(self) -> list[Any]: ...
    def __arrow_c_array__(
        self, requested_schema: Optional[object] = None
    ) -> tuple[Any, Any]: ...

@final
class Hasher:
    def __new__(
        cls,
        *,
        seed: int = 0,
        secret: Optional[_Secret] = None,
        encoding: Optional[_Encoding] = None,
    ) -> Hasher: ...
    def hash(self, key: _Key) -> int: ...
    def hash_many(self, keys: _Keys) -> Any: ...

@final
class Reader:
    def __contains__(self, key: _Key, /) -> bool: ...
    @overload
    def contains_many(self, keys: Union[list[_Key], list[str], list[bytes], tuple[_Key, ...]]) -> list[bool]: ...
    @overload
    def contains_many(self, keys: _Keys) -> Any: ...
    def check(self, key: _Key) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Reader: ...
    def __exit__(
        self,
        exception_type: Optional[type[BaseException]] = ...,
        exception: Optional[BaseException] = ...,
        traceback: Optional[TracebackType] = ...,
        /,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def path(self) -> Path: ...
    @property
    def uuid(self) -> str: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    @property
    def capacity(self) -> Optional[int]: ...
    @property
    def mark(self) -> int: ...
    @property
    def kind(self) -> Literal["plain", "counting", "sealed"]: ...
    @property
    def health(self) -> Literal["clean", "live", "crashed", "damaged"]: ...
    @property
    def estimate(self) -> float: ...
    @property
    def rate(self) -> float: ...
    def stats(self) -> ReaderStats: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Filter:
    def __contains__(self, key: _Key, /) -> bool: ...
    @overload
    def contains_many(self, keys: Union[list[_Key], list[str], list[bytes], tuple[_Key, ...]]) -> list[bool]: ...
    @overload
    def contains_many(self, keys: _Keys) -> Any: ...
    def add(self, key: _Key) -> bool: ...
    def update(self, keys: _Keys) -> int: ...
    def update_hashes(self, hashes: Union[_ArrowArray, _ArrowStream, Buffer]) -> int: ...
    def remove(self, key: _Key) -> None: ...
    def remove_many(self, keys: _Keys) -> int: ...
    def sync(self, *, mark: Optional[int] = None) -> None: ...
    def checkpoint(self) -> None: ...
    def set_background(self, on: bool) -> None: ...
    def rotate(self) -> None: ...
    def __ior__(self, other: Union[Filter, Reader, _Path], /) -> Filter: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Filter: ...
    def __exit__(
        self,
        exception_type: Optional[type[BaseException]] = ...,
        exception: Optional[BaseException] = ...,
        traceback: Optional[TracebackType] = ...,
        /,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def path(self) -> Path: ...
    @property
    def uuid(self) -> str: ...
    @property
    def metadata(self) -> dict[str, str]: ...
    def set_metadata(self, key: str, value: Optional[str]) -> None: ...
    @property
    def capacity(self) -> Optional[int]: ...
    @property
    def mark(self) -> int: ...
    @property
    def kind(self) -> Literal["plain", "counting"]: ...
    @property
    def estimate(self) -> float: ...
    @property
    def rate(self) -> float: ...
    def stats(self) -> FilterStats: ...

@overload
def open(
    path: _Path,
    mode: Literal["r"] = "r",
    *,
    secret: Optional[_Secret] = None,
    verify: bool = False,
    trust: bool = False,
    memory: bool = False,
) -> Reader: ...
@overload
def open(
    path: _Path,
    mode: Literal["r+"],
    *,
    secret: Optional[_Secret] = None,
    verify: bool = False,
    trust: bool = False,
    memory: bool = False,
) -> Filter: ...
def create(
    path: _Path,
    *,
    capacity: Optional[int] = None,
    fpr: Optional[float] = None,
    kind: Literal["plain", "counting"] = "plain",
    layout: Optional[_Layout] = None,
    rows: Optional[int] = None,
    row_bits: Optional[int] = None,
    when_full: Literal["allow", "refuse", "grow"] = "allow",
    generations: int = 0,
    rotate_after: int = 0,
    generation_fpr: Optional[float] = None,
    seed: int = 0,
    secret: Optional[_Secret] = None,
    encoding: Optional[_Encoding] = None,
    metadata: Optional[dict[str, str]] = None,
    journal: Optional[int] = None,
    replace: bool = False,
) -> Filter: ...
def build(
    path: _Path,
    keys: _Keys,
    *,
    capacity: Optional[int] = None,
    fpr: Optional[float] = None,
    kind: Literal["plain", "sealed"] = "plain",
    layout: Optional[_Layout] = None,
    rows: Optional[int] = None,
    row_bits: Optional[int] = None,
    seed: int = 0,
    secret: Optional[_Secret] = None,
    encoding: Optional[_Encoding] = None,
    metadata: Optional[dict[str, str]] = None,
    journal: Optional[int] = None,
    replace: bool = False,
    memory: Optional[int] = None,
) -> Built: ...
def merge(path: _Path, files: list[_Path], *, replace: bool = False) -> Derivation: ...
def intersect(path: _Path, files: list[_Path], *, replace: bool = False) -> Derivation: ...
def compact(
    path: _Path, file: _Path, *, journal: int = 0, replace: bool = False
) -> Derivation: ...
def compare(a: _Path, b: _Path) -> Comparison: ...
def html_report(path: _Path) -> str: ...
def inspect(path: _Path) -> Inspection: ...
def verify(path: _Path) -> Verification: ...
def digest(path: _Path) -> str: ...
def join(path: _Path, parts: list[_Path], *, replace: bool = False) -> Built: ...
def plan_parts(
    parts: int,
    *,
    capacity: Optional[int] = None,
    fpr: Optional[float] = None,
    kind: Literal["plain", "sealed"] = "plain",
    layout: Optional[_Layout] = None,
    seed: int = 0,
    secret: Optional[_Secret] = None,
    encoding: Optional[_Encoding] = None,
    metadata: Optional[dict[str, str]] = None,
    journal: Optional[int] = None,
) -> PartPlan: ...

@final
class PartPlan:
    @staticmethod
    def from_bytes(data: bytes) -> PartPlan: ...
    def to_bytes(self) -> bytes: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def parts(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    def part_of(self, hash: int) -> int: ...
    def split(
        self, keys: _Keys, *, secret: Optional[_Secret] = None
    ) -> list[tuple[int, bytes]]: ...
    def start(
        self,
        part: int,
        path: _Path,
        *,
        secret: Optional[_Secret] = None,
        replace: bool = False,
        any_order: bool = False,
        memory: Optional[int] = None,
    ) -> PartBuilder: ...

@final
class PartBuilder:
    def update(self, keys: _Keys) -> int: ...
    def update_hashes(self, hashes: Union[_ArrowArray, _ArrowStream, Buffer]) -> int: ...
    def finish(self) -> BuiltPart: ...

def _reopen(path: Path, uuid: str, verify: bool, trust: bool, memory: bool) -> Reader: ...
