"""Commits per second of SQLite, one row each: sqlite_commits.py FILE THREADS SECONDS."""

import sqlite3
import sys
import threading
import time

path, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


def connect():
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    return database


connect().execute("CREATE TABLE keys (hash INTEGER PRIMARY KEY)")
done = [0] * threads
end = time.monotonic() + seconds


def commit(thread):
    database = connect()
    while time.monotonic() < end:
        number = thread << 32 | done[thread]
        database.execute("INSERT INTO keys VALUES (?)", (number * 0x9E3779B97F4A7C15 % 2**63,))
        done[thread] += 1


workers = [threading.Thread(target=commit, args=(thread,)) for thread in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(sum(done) / seconds)
