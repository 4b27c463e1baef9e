"""Processes that have a file mapped share its memory."""

import os
import subprocess
import sys

import bloomfile
import pytest

PROCESSES = 8
# 1 GiB by BLOOMFILE_SHARED_BYTES=1073741824.
SIZE = int(os.environ.get("BLOOMFILE_SHARED_BYTES", 32 << 20))

# Touches every page, waits until all others have, and says what its share of the memory is.
WORKER = """
import array, os, sys, bloomfile
reader = bloomfile.open("big.bloom", trust=True)
size = os.path.getsize("big.bloom")
state = 1
for _ in range(size // 4096 * 16 // 100_000 + 1):
    hashes = array.array("Q", [state * 0x9E3779B97F4A7C15 * n % 2**64 for n in range(1, 100_001)])
    state += 2
    reader.contains_many(hashes)
print("ready", flush=True)
sys.stdin.readline()
share, ours = 0, False
for line in open("/proc/self/smaps"):
    if "-" in line.split(" ")[0]:
        ours = line.rstrip().endswith("big.bloom")
    elif ours and line.startswith("Pss:"):
        share += int(line.split()[1]) << 10
print(share, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps"), reason="skipped: shares of memory, which /proc tells"
)
def test_the_shares_of_all_processes_are_one_file():
    # Lines are 64 bytes, and a look-up touches one.
    capacity = int(SIZE * 8 / 10.2)
    bloomfile.create("big.bloom", capacity=capacity, encoding="le64", journal=0).close()
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen([sys.executable, "-c", WORKER], **pipe) for _ in range(PROCESSES)]

    def told(worker):
        return worker.stdout.readline().strip()

    def go(worker):
        worker.stdin.write("\n")
        worker.stdin.flush()

    try:
        assert [told(worker) for worker in workers] == ["ready"] * PROCESSES
        for worker in workers:
            go(worker)
        shares = [int(told(worker)) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    size = os.path.getsize("big.bloom")
    print(f"{PROCESSES} processes: {shares}, together {sum(shares):,} of {size:,} bytes")
    assert 0.9 * size < sum(shares) < 1.05 * size
    assert max(shares) < size / (PROCESSES - 2)
