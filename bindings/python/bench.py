"""Adds and look-ups beside pybloomfiltermmap3 and rbloom, in nanoseconds for each key.

    pip install pybloomfiltermmap3 rbloom pyarrow numpy && python bindings/python/bench.py [KEYS ...]

With --results FILE what was measured is kept there, and what is there already is not measured again:
so a run can be made in pieces, by --package and --form, and the last one prints the whole table.

Each figure is the best of three runs, of one for more than 2,000,000 keys. rbloom is measured with a hash that outlives the process, as its
README gives it for filters that are saved (SHA-256), and with Python's own hash(), whose filters no
other process can ask. The others have no call for many look-ups, so theirs are a loop over `in`.
"""

import argparse
import hashlib
import json
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


FORMS = ["list of str", "list of bytes", "Arrow strings", "int64 array"]


def calls_of(form):
    return ["single", "many"] if form.startswith("list") else ["many"]


def keys_of(form, count):
    """The keys in this form, as a list for packages that take no other, and their encoding."""
    if form == "int64 array":
        numbers = numpy.arange(count)
        return numbers, numbers.tolist(), "le64"
    texts = [f"https://example.org/{number}" for number in range(count)]
    if form == "list of bytes":
        texts = [text.encode() for text in texts]
    return (pyarrow.array(texts) if form == "Arrow strings" else texts), texts, None


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("counts", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--results")
    parser.add_argument("--package", choices=MAKERS, action="append")
    parser.add_argument("--form", choices=FORMS, action="append")
    return parser.parse_args()


def main():
    asked = arguments()
    results = {}
    if asked.results and os.path.exists(asked.results):
        with open(asked.results) as file:
            results = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        for count in asked.counts:
            for form in asked.form or FORMS:
                wanted = [
                    (calls, package)
                    for calls in calls_of(form)
                    for package in asked.package or MAKERS
                    if f"{count} {form} {calls} {package}" not in results
                ]
                keys, plain, encoding = keys_of(form, count) if wanted else ([], [], None)
                for calls, package in wanted:
                    single = calls == "single"
                    add = add_one_by_one if single else lambda filter, keys: filter.update(keys)
                    ask = ask_one_by_one if single else ask_many
                    given = keys if package == "bloomfile" else plain
                    times = measure(MAKERS[package], folder, count, encoding, add, ask, given)
                    results[f"{count} {form} {calls} {package}"] = times
    if asked.results:
        with open(asked.results, "w") as file:
            json.dump(results, file)
    print("| keys | as | calls | " + " | ".join(MAKERS) + " |")
    print("| --- " * (3 + len(MAKERS)) + "|")
    for count in asked.counts:
        for form in FORMS:
            for calls in calls_of(form):
                row = [results.get(f"{count} {form} {calls} {package}") for package in MAKERS]
                cells = [", ".join(f"{ns:,.0f}" for ns in times) if times else "–" for times in row]
                print(f"| {count:,} | {form} | {calls} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
