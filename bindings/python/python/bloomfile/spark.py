"""Filters built and asked on Spark.

``build`` makes one file of the keys of a DataFrame, of any size: keys are hashed where they are,
shuffled by part as 8-byte hashes, each task builds a part, and the parts are joined. ``filter`` keeps
the rows whose key may be in a file, as the pre-check of a join.

Needs pyspark and pyarrow, and on all workers this package and a file system that they share with the
driver. Rows whose key is null are left out.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from . import _bloomfile as bloomfile
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
    **options: Any,
) -> Built:
    """Builds the file ``path`` from the keys in ``column``.

    ``capacity`` is the number of distinct keys, and ``parts`` that of tasks that build the filter, by
    default one for every 4 million keys. Further options are those of ``bloomfile.plan_parts``:
    ``kind``, ``layout``, ``seed``, ``encoding``, ``metadata``, ``journal``. The parts are beside the
    file, in the folder ``path + ".parts"``, until they are joined by the driver.

    A task that fails is tried again by Spark; a part has its name once it is whole. The file does not
    depend on the order of the rows, unless a part has more than 8 million keys: then the number of
    adds that it counts may differ by a few, and nothing else.
    """
    if parts is None:
        parts = max(1, -(-capacity // _KEYS_PER_PART))
    plan = bloomfile.plan_parts(parts, capacity=capacity, fpr=fpr, secret=secret, **options)
    path = os.path.abspath(path)
    if not replace and os.path.exists(path):
        from ._errors import ExistsError

        raise ExistsError(f"{path}: already exists; choose another name, or give replace=True")
    folder = path + ".parts"
    os.makedirs(folder, exist_ok=True)
    try:
        built = _build_parts(df, column, plan, folder, secret)
        files: List[Any] = []
        for part in range(1, parts + 1):
            file = _file_of(folder, part)
            if part not in built:
                # No task saw a key of it.
                plan.start(part, file, secret=secret, replace=True).finish()
            files.append(file)
        return bloomfile.join(path, files, replace=replace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file_of(folder: str, part: int) -> str:
    return os.path.join(folder, f"{part}.part")


def _build_parts(
    df: _DataFrame, column: str, plan: bloomfile.PartPlan, folder: str, secret: Optional[bytes]
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

        part, done = 0, []
        builder: Optional[bloomfile.PartBuilder] = None
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            for number, hashes in zip(numbers, batch.column(1)):
                if builder is None or number + 1 != part:
                    if builder is not None:
                        done.append(builder.finish())
                    part = number + 1
                    file = _file_of(folder, part)
                    builder = plan.start(
                        part, file, secret=secret, replace=True, any_order=True
                    )
                # A memoryview of Arrow's buffer: nothing is copied.
                builder.update_hashes(memoryview(hashes.as_buffer()).cast("B").cast("Q"))
        if builder is not None:
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


def filter(df: _DataFrame, column: str, path: str, *, secret: Optional[bytes] = None) -> _DataFrame:
    """Keeps the rows whose key in ``column`` may be in the file: all that are in it, and of the others
    as many as its rate says.

    Each worker maps the file, which has to be at the same path, and to be the same file, as here.
    """
    reader = bloomfile.open(path, secret=secret)
    place = df.columns.index(column)
    absolute, uuid = str(reader.path), reader.uuid
    reader.close()

    def kept(batches: Iterator[_arrow.RecordBatch]) -> Iterator[_arrow.RecordBatch]:
        from ._errors import DifferentError

        with bloomfile.open(absolute, secret=secret) as reader:
            if reader.uuid != uuid:
                raise DifferentError(f"{absolute}: is another file here than on the driver")
            for batch in batches:
                yield batch.filter(reader.contains_many(batch.column(place)))

    return df.mapInArrow(kept, df.schema)
