"""Not run: mypy reads it. What is wrong is marked, and a mark without an error is one itself."""

from __future__ import annotations

import bloomfile
import polars as pl
from bloomfile.compat.pybloomfilter import BloomFilter
from bloomfile.compat.rbloom import Bloom

built: bloomfile.Built = bloomfile.build("a.bloom", ["a", "b"], fpr=0.01)
reader: bloomfile.Reader = bloomfile.open("a.bloom")
answers: list[bool] = reader.contains_many(["a"])
column = reader.contains_many(pl.Series(["a"]))
with bloomfile.open("a.bloom", "r+") as writer:
    new: bool = writer.add(b"key")
    count: int = writer.update(str(number) for number in range(9))
    writer.sync(mark=3)
    removed: int = writer.remove_many(["key"])
    writer |= reader
shipped: bloomfile.Derivation = bloomfile.compact("b.bloom", "a.bloom", journal=0)
rate: float = bloomfile.inspect("a.bloom").segments[0].rate_now
bloom: Bloom = Bloom(100, 0.01) | Bloom(100, 0.01)
there: bool = BloomFilter(100, 0.01).add("x")

reader.add("x")  # type: ignore[attr-defined]
writer.add(1.5)  # type: ignore[arg-type]
bloomfile.open("a.bloom", "w")  # type: ignore[call-overload]
bloomfile.create("a.bloom", capacity="many")  # type: ignore[arg-type]
bloomfile.build("a.bloom", ["a"], encoding="le16")  # type: ignore[arg-type]
