"""Filters built and asked on Spark.

``build`` makes one file of the keys of a DataFrame, of any size: keys are hashed where they are,
shuffled by part as 8-byte hashes, each task builds a part, and the parts are joined. ``filter`` keeps
the rows whose key may be in a file, as the pre-check of a join.

Needs pyspark and pyarrow, and on all workers this package. Files are on a file system that workers and
driver share, or in an object store: a path such as ``s3://bucket/urls.bloom`` goes through fsspec, which
needs s3fs for that one. Rows whose key is null are left out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from . import _bloomfile as bloomfile
from ._errors import DifferentError, ExistsError, NotFoundError
from ._reports import Built

if TYPE_CHECKING:
    import pyarrow as _arrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from pyspark.sql import DataFrame as _DataFrame  # type: ignore[import-untyped, import-not-found, unused-ignore]

__all__ = ["build", "filter"]

# Keys of a part, where the caller names no number of parts: 32 MiB of hashes in a task.
_KEYS_PER_PART = 1 << 22

# Hashes that are kept back before they are shuffled, at least and at most, and for each part: a row
# costs some 32 bytes beside its hashes.
_FEWEST_AT_ONCE = 1 << 18
_MOST_AT_ONCE = 1 << 23
_HASHES_PER_ROW = 64


class _Local:
    """Files of a file system that workers and driver share."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def exists(self) -> bool:
        return os.path.exists(self.path)

    @contextmanager
    def parts(self) -> Iterator[None]:
        """The folder of the parts, for as long as they are needed."""
        os.makedirs(self.path + ".parts", exist_ok=True)
        try:
            yield
        finally:
            shutil.rmtree(self.path + ".parts", ignore_errors=True)

    @contextmanager
    def writing_part(self, part: int) -> Iterator[str]:
        """Where a part is built. It has its name when it is whole."""
        yield os.path.join(self.path + ".parts", f"{part}.part")

    @contextmanager
    def reading_parts(self, parts: int) -> Iterator[List[Any]]:
        folder = self.path + ".parts"
        yield [os.path.join(folder, f"{part}.part") for part in range(1, parts + 1)]

    @contextmanager
    def writing(self) -> Iterator[str]:
        yield self.path

    def here(self) -> str:
        """The file on this machine."""
        return self.path


class _Remote:
    """Objects of a store. What is built or read lies in a temporary folder of the machine before or after:
    an object is there when it is whole, and never a piece of it."""

    def __init__(self, path: str, options: Optional[Dict[str, Any]]) -> None:
        self.path, self.options = path, options or {}

    def _store(self) -> Any:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError as error:
            raise ImportError(
                f"{self.path}: object stores need fsspec, and s3:// needs s3fs: pip install s3fs"
            ) from error
        return url_to_fs(self.path, **self.options)

    def exists(self) -> bool:
        store, name = self._store()
        return bool(store.exists(name))

    @contextmanager
    def parts(self) -> Iterator[None]:
        try:
            yield
        finally:
            store, name = self._store()
            # What was listed before a worker wrote to it may be remembered.
            store.invalidate_cache()
            if store.exists(name + ".parts"):
                store.rm(name + ".parts", recursive=True)

    @contextmanager
    def writing_part(self, part: int) -> Iterator[str]:
        store, name = self._store()
        with tempfile.TemporaryDirectory(prefix="bloomfile-") as folder:
            file = os.path.join(folder, f"{part}.part")
            yield file
            store.put_file(file, f"{name}.parts/{part}.part")

    @contextmanager
    def reading_parts(self, parts: int) -> Iterator[List[Any]]:
        store, name = self._store()
        with tempfile.TemporaryDirectory(prefix="bloomfile-") as folder:
            files = []
            for part in range(1, parts + 1):
                files.append(os.path.join(folder, f"{part}.part"))
                store.get_file(f"{name}.parts/{part}.part", files[-1])
            yield files

    @contextmanager
    def writing(self) -> Iterator[str]:
        store, name = self._store()
        with tempfile.TemporaryDirectory(prefix="bloomfile-") as folder:
            file = os.path.join(folder, "whole.bloom")
            yield file
            store.put_file(file, name)

    def here(self) -> str:
        """A copy of the object on this machine, which its processes share: fetched once for each version."""
        store, name = self._store()
        if not store.exists(name):
            raise NotFoundError(f"{self.path}: there is no such object")
        version = hashlib.sha256(f"{self.path} {store.ukey(name)}".encode()).hexdigest()[:32]
        # Of this user alone: others could put another file in its place.
        folder = os.path.join(tempfile.gettempdir(), f"bloomfile-{_user()}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.name == "posix" and os.stat(folder).st_uid != os.getuid():
            raise PermissionError(f"{folder}: belongs to another user; set TMPDIR to another folder")
        copy = os.path.join(folder, version + ".bloom")
        if not os.path.exists(copy):
            place, part = tempfile.mkstemp(dir=folder)
            os.close(place)
            try:
                store.get_file(name, part)
                os.replace(part, copy)
            except BaseException:
                os.unlink(part)
                raise
        return copy


def _user() -> str:
    return str(os.getuid()) if os.name == "posix" else "user"


def _place(path: str, options: Optional[Dict[str, Any]]) -> Any:
    return _Remote(path, options) if "://" in path else _Local(path)


def build(
    df: _DataFrame,
    column: str,
    path: str,
    *,
    capacity: int,
    fpr: float = 0.01,
    parts: Optional[int] = None,
    replace: bool = False,
    secret: Optional[bytes] = None,
    storage_options: Optional[Dict[str, Any]] = None,
    **options: Any,
) -> Built:
    """Builds the file ``path`` from the keys in ``column``.

    ``capacity`` is the number of distinct keys, and ``parts`` that of tasks that build the filter, by
    default one for every 4 million keys. Further options are those of ``bloomfile.plan_parts``:
    ``kind``, ``layout``, ``seed``, ``encoding``, ``metadata``, ``journal``. The parts are beside the
    file, in the folder ``path + ".parts"``, until they are joined by the driver. Where ``path`` is in an
    object store, ``storage_options`` are what fsspec gives to it; a part is built on the disk of its
    worker, and the file on that of the driver, before they are put there.

    A task that fails is tried again by Spark; a part has its name once it is whole. The file does not
    depend on the order of the rows, unless a part has more than 8 million keys: then the number of
    adds that it counts may differ by a few, and nothing else.
    """
    if parts is None:
        parts = max(1, -(-capacity // _KEYS_PER_PART))
    plan = bloomfile.plan_parts(parts, capacity=capacity, fpr=fpr, secret=secret, **options)
    place = _place(path, storage_options)
    if not replace and place.exists():
        raise ExistsError(f"{place.path}: already exists; choose another name, or give replace=True")
    with place.parts():
        built = _build_parts(df, column, plan, place, secret)
        for part in range(1, parts + 1):
            if part not in built:
                # No task saw a key of it.
                with place.writing_part(part) as file:
                    plan.start(part, file, secret=secret, replace=True).finish()
        with place.reading_parts(parts) as files, place.writing() as whole:
            return bloomfile.join(whole, files, replace=replace)


def _build_parts(
    df: _DataFrame, column: str, plan: bloomfile.PartPlan, place: Any, secret: Optional[bytes]
) -> Dict[int, int]:
    """Builds all parts that have keys, and tells how many each has."""

    def hashed(batches: Iterator[_arrow.RecordBatch]) -> Iterator[_arrow.RecordBatch]:
        import pyarrow

        waiting: Dict[int, List[bytes]] = {}
        count = 0
        wanted = _HASHES_PER_ROW * plan.parts
        at_once = min(max(wanted, _FEWEST_AT_ONCE), _MOST_AT_ONCE)

        def row_of_parts() -> _arrow.RecordBatch:
            numbers = sorted(waiting)
            hashes = [b"".join(waiting[number]) for number in numbers]
            columns = [
                pyarrow.array([number - 1 for number in numbers], pyarrow.int32()),
                pyarrow.array(hashes, pyarrow.binary()),
            ]
            return pyarrow.RecordBatch.from_arrays(columns, ["part", "hashes"])

        for batch in batches:
            for part, hashes in plan.split(batch.column(0), secret=secret):
                waiting.setdefault(part, []).append(hashes)
                count += len(hashes) // 8
            if count >= at_once:
                yield row_of_parts()
                waiting, count = {}, 0
        if waiting:
            yield row_of_parts()

    def filled(batches: Iterator[_arrow.RecordBatch]) -> Iterator[_arrow.RecordBatch]:
        import pyarrow

        done: List[Any] = []
        # The hashes of a part come one after the other, and of one part at a time.
        rows = (
            (number + 1, hashes)
            for batch in batches
            for number, hashes in zip(batch.column(0).to_pylist(), batch.column(1))
        )
        for part, group in groupby(rows, key=lambda row: row[0]):
            with place.writing_part(part) as file:
                builder = plan.start(part, file, secret=secret, replace=True, any_order=True)
                for _, hashes in group:
                    # A memoryview of Arrow's buffer: nothing is copied.
                    builder.update_hashes(memoryview(hashes.as_buffer()).cast("B").cast("Q"))
                done.append(builder.finish())
        if done:
            columns = [
                pyarrow.array([built.part for built in done], pyarrow.int32()),
                pyarrow.array([built.taken for built in done], pyarrow.int64()),
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, ["part", "taken"])

    rows = df.select(column).mapInArrow(hashed, "part int, hashes binary")
    if hasattr(rows, "repartitionById"):
        # One part for each task.
        shuffled = rows.repartitionById(plan.parts, rows["part"])
    else:
        # Some tasks get several parts, one after the other.
        shuffled = rows.repartition(plan.parts, "part").sortWithinPartitions("part")
    done = shuffled.mapInArrow(filled, "part int, taken bigint").collect()
    return {row["part"]: row["taken"] for row in done}


def filter(
    df: _DataFrame,
    column: str,
    path: str,
    *,
    secret: Optional[bytes] = None,
    storage_options: Optional[Dict[str, Any]] = None,
) -> _DataFrame:
    """Keeps the rows whose key in ``column`` may be in the file: all that are in it, and of the others
    as many as its rate says.

    Each worker maps the file, which has to be the same one there as here: at the same path, or in an
    object store, from which each machine fetches it once, into its folder for temporary files.
    """
    files = _place(path, storage_options)
    with bloomfile.open(files.here(), secret=secret) as reader:
        uuid = reader.uuid
    place = df.columns.index(column)

    def kept(batches: Iterator[_arrow.RecordBatch]) -> Iterator[_arrow.RecordBatch]:
        with bloomfile.open(files.here(), secret=secret) as reader:
            if reader.uuid != uuid:
                raise DifferentError(f"{files.path}: is another file here than on the driver")
            for batch in batches:
                yield batch.filter(reader.contains_many(batch.column(place)))

    return df.mapInArrow(kept, df.schema)
