"""Adds and look-ups beside pybloomfiltermmap3 and rbloom, in nanoseconds for each key.

    pip install pybloomfiltermmap3 rbloom pyarrow numpy && python bindings/python/bench.py [KEYS ...]

Each figure is the best of three runs. rbloom is measured with a hash that outlives the process, as its
README gives it for filters that are saved (SHA-256), and with Python's own hash(), whose filters no
other process can ask. The others have no call for many look-ups, so theirs are a loop over `in`.
"""

import hashlib
import os
import pickle
import sys
import tempfile
import time

import bloomfile
import numpy
import pyarrow
import pybloomfilter
import rbloom

RATE = 0.01


def lasting(item):
    digest = hashlib.sha256(pickle.dumps(item)).digest()
    return int.from_bytes(digest[:16], "big", signed=True)


def ours(folder, keys, encoding):
    path = os.path.join(folder, "ours.bloom")
    return bloomfile.create(path, capacity=keys, fpr=RATE, encoding=encoding, replace=True)


def theirs(folder, keys, encoding):
    return pybloomfilter.BloomFilter(keys, RATE, os.path.join(folder, "theirs.bloom"))


MAKERS = {
    "bloomfile": ours,
    "pybloomfiltermmap3": theirs,
    "rbloom, SHA-256": lambda folder, keys, encoding: rbloom.Bloom(keys, RATE, lasting),
    "rbloom, hash()": lambda folder, keys, encoding: rbloom.Bloom(keys, RATE),
}


def add_one_by_one(filter, keys):
    add = filter.add
    for key in keys:
        add(key)


def ask_one_by_one(filter, keys):
    found = 0
    for key in keys:
        found += key in filter
    return found


def ask_many(filter, keys):
    if hasattr(filter, "contains_many"):
        return filter.contains_many(keys)
    return [key in filter for key in keys]


def measure(make, folder, count, encoding, add, ask, keys):
    best = [float("inf")] * 2
    for _ in range(3 if count <= 2_000_000 else 1):
        filter = make(folder, count, encoding)
        for at, work in enumerate((add, ask)):
            start = time.perf_counter()
            work(filter, keys)
            best[at] = min(best[at], time.perf_counter() - start)
        if hasattr(filter, "close"):
            filter.close()
    return [1e9 * seconds / count for seconds in best]


def forms(count):
    texts = [f"https://example.org/{number}" for number in range(count)]
    numbers = numpy.arange(count)
    yield "list of str", texts, texts, None
    yield "list of bytes", (data := [text.encode() for text in texts]), data, None
    yield "Arrow strings", pyarrow.array(texts), texts, None
    yield "int64 array", numbers, numbers.tolist(), "le64"


def main():
    counts = [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000]
    print("| keys | as | calls | " + " | ".join(f"{name}: add, look-up" for name in MAKERS) + " |")
    print("| --- " * (3 + len(MAKERS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            for name, keys, plain, encoding in forms(count):
                for calls in ("single", "many"):
                    if calls == "single" and not name.startswith("list"):
                        continue
                    row = []
                    for maker, make in MAKERS.items():
                        single = calls == "single"
                        add = add_one_by_one if single else lambda filter, keys: filter.update(keys)
                        ask = ask_one_by_one if single else ask_many
                        mine = maker == "bloomfile"
                        given = keys if mine else plain
                        times = measure(make, folder, count, encoding, add, ask, given)
                        row.append(", ".join(f"{ns:,.0f}" for ns in times))
                    print(f"| {count:,} | {name} | {calls} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
