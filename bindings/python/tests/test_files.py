"""Files: made, written, read, merged, and what goes wrong."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import bloomfile
import pytest


def test_the_tour():
    bloomfile.build("words.bloom", ["sheep", "goat"], fpr=0.01)
    with bloomfile.open("words.bloom") as f:
        assert "sheep" in f and "wolf" not in f
        assert f.contains_many(["sheep", "wolf"]) == [True, False]
    f = bloomfile.create("seen.bloom", capacity=10_000, fpr=0.001, kind="counting")
    assert f.add("x") is True
    f.update(["y", "z"])
    f.remove("x")
    f.sync(mark=42)
    assert (f.mark, len(f), f.stats().syncs) == (42, 2, 1)
    assert f.contains_many(("x", "y", "z")) == [False, True, True]
    f.close()
    for name, key in [("a.bloom", "a"), ("b.bloom", "b")]:
        bloomfile.build(name, [key], capacity=100)
    # Repeats take no room, however the keys come.
    for keys in [["a", "b", "a"] * 1000, (str(i % 7) for i in range(10_000))]:
        built = bloomfile.build("repeats.bloom", keys, replace=True)
        assert built.capacity == built.keys in (2, 7)
    bloomfile.merge("all.bloom", ["a.bloom", "b.bloom"])
    assert bloomfile.compare("all.bloom", "a.bloom").relation == "superset"
    assert bloomfile.inspect("all.bloom").capacity == 100
    assert bloomfile.verify("all.bloom").sound
    g = bloomfile.open("a.bloom", "r+")
    g |= bloomfile.open("b.bloom")
    assert "b" in g
    h = bloomfile.create("c.bloom", capacity=100)
    h |= g
    assert "a" in h and "b" in h


def test_kinds():
    with bloomfile.create("grow.bloom", capacity=100, when_full="grow") as grow:
        grow.update(str(number) for number in range(1000))
        assert all(grow.contains_many([str(number) for number in range(1000)]))
    assert len(bloomfile.inspect("grow.bloom").segments) > 1
    with bloomfile.create("full.bloom", capacity=2, when_full="refuse") as full:
        full.update(["a", "b"])
        with pytest.raises(bloomfile.FullError):
            full.add("c")
    with bloomfile.create("rows.bloom", rows=3, row_bits=1000) as rows:
        assert rows.add("a") and "a" in rows and rows.capacity is None
    with pytest.raises(ValueError, match="plain, counting and sealed"):
        bloomfile.create("x.bloom", capacity=1, kind="round")
    bloomfile.build("sealed.bloom", (str(n) for n in range(1000)), kind="sealed")
    assert bloomfile.open("sealed.bloom").kind == "sealed"
    keys = [str(n) for n in range(1000)]
    bloomfile.build("little.bloom", keys, kind="sealed", memory=32 << 20)
    with open("little.bloom", "rb") as little, open("sealed.bloom", "rb") as sealed:
        assert little.read() == sealed.read()
    with pytest.raises(ValueError, match="at least 32 MiB"):
        bloomfile.build("x.bloom", keys, kind="sealed", memory=1000)
    with pytest.raises(ValueError, match="memory"):
        bloomfile.build("x.bloom", keys, memory=32 << 20)
    with pytest.raises(bloomfile.SealedError, match="is sealed"):
        bloomfile.open("sealed.bloom", "r+")


def test_the_rate_of_generations():
    def rate(name, **rates):
        bloomfile.create(name, capacity=1000, generations=4, **rates).close()
        found = bloomfile.inspect(name)
        return found.segments[0].rate_at_capacity, found.target_rate

    each, target = rate("whole.bloom", fpr=0.04)
    assert each < 0.0105 and target == 0.04
    each, target = rate("each.bloom", generation_fpr=0.04)
    assert 0.03 < each < 0.041
    with pytest.raises(ValueError, match="give one of them"):
        rate("both.bloom", fpr=0.01, generation_fpr=0.01)


def test_many_keys_are_taken_out():
    import numpy
    import pyarrow

    with bloomfile.create("c.bloom", capacity=10_000, fpr=1e-6, kind="counting") as counting:
        counting.update(str(number) for number in range(1000))
        counting.update(["0", "0"])
        assert counting.remove_many([str(number) for number in range(500)] + ["unknown"]) == 500
        assert counting.contains_many(["0", "1", "999"]) == [True, False, True]
        assert counting.remove_many(pyarrow.array(["0", "999", "999"])) == 2
        assert counting.remove_many(str(number) for number in range(2)) == 1
        with pytest.raises(ValueError, match="null is no key"):
            counting.remove_many(pyarrow.array(["7", None]))
        with pytest.raises(TypeError, match="put it in a list"):
            counting.remove_many("7")
    with pytest.raises(bloomfile.ClosedError):
        counting.remove_many([])
    with bloomfile.create("n.bloom", capacity=100, kind="counting", encoding="le64") as numbers:
        numbers.update(range(10))
        assert numbers.remove_many(numpy.arange(5, 15)) == 5
    with bloomfile.create("p.bloom", capacity=100) as plain:
        plain.add("a")
        with pytest.raises(bloomfile.ParameterError, match="counting"):
            plain.remove_many(["a"])


def test_compacting():
    with bloomfile.create("long.bloom", capacity=1000, journal=1 << 20) as filter:
        filter.add("a")
    made = bloomfile.compact("short.bloom", "long.bloom")
    assert made.file_bytes + (1 << 20) <= bloomfile.inspect("long.bloom").file_bytes
    assert bloomfile.inspect("short.bloom").journal_bytes == 0
    assert bloomfile.digest("short.bloom") == bloomfile.digest("long.bloom")
    with pytest.raises(bloomfile.ExistsError):
        bloomfile.compact("short.bloom", "short.bloom", journal=65536)
    bloomfile.compact("short.bloom", "short.bloom", journal=65536, replace=True)
    assert bloomfile.inspect("short.bloom").journal_bytes == 65536
    with pytest.raises(bloomfile.NotFoundError):
        bloomfile.compact("x.bloom", "none.bloom")


def test_metadata_and_properties():
    bloomfile.build("a.bloom", ["a"], metadata={"keys": "letters"}, capacity=10)
    reader = bloomfile.open("a.bloom")
    assert reader.metadata == {"keys": "letters"}
    assert (reader.capacity, reader.mark, reader.kind, reader.health) == (10, 0, "plain", "clean")
    assert reader.path.is_absolute() and len(reader.uuid) == 36 and len(reader) == 1
    assert 0.9 < reader.estimate < 1.1 and 0 < reader.rate < 0.01
    assert repr(reader).endswith("a.bloom, open>")
    with bloomfile.open("a.bloom", "r+") as filter:
        filter.set_metadata("keys", None)
        assert filter.metadata == {} and bool(filter)
        filter.set_background(False)
        filter.checkpoint()
        filter.set_background(True)
    assert bloomfile.open("a.bloom").metadata == {}


def test_errors_are_exceptions_with_the_messages_of_the_library():
    with pytest.raises(bloomfile.NotFoundError, match="none.bloom: cannot open") as caught:
        bloomfile.open("none.bloom")
    assert isinstance(caught.value, FileNotFoundError) and caught.value.errno == 2
    assert caught.value.path == "none.bloom"
    bloomfile.build("a.bloom", ["a"])
    with pytest.raises(FileExistsError, match="already exists"):
        bloomfile.build("a.bloom", ["a"])
    bloomfile.build("a.bloom", ["a"], replace=True)
    with pytest.raises(bloomfile.ParameterError, match="capacity cannot be 0"):
        bloomfile.create("x.bloom", capacity=0)
    with pytest.raises(ValueError, match="false positive rate"):
        bloomfile.create("x.bloom", capacity=1, fpr=2.0)
    open("text.bloom", "w").write("not a filter")
    with pytest.raises(bloomfile.BadFileError, match="is not a bloomfile"):
        bloomfile.inspect("text.bloom")
    with bloomfile.open("a.bloom", "r+"):
        with pytest.raises(bloomfile.LockedError, match="written by another process"):
            bloomfile.open("a.bloom", "r+")
    with pytest.raises(ValueError, match='neither "r" nor "r'):
        bloomfile.open("a.bloom", "w")
    with bloomfile.create("c.bloom", capacity=10, kind="counting") as counting:
        with pytest.raises(LookupError, match="not in the filter"):
            counting.remove("nothing")
    bloomfile.build("other.bloom", ["a"], seed=3)
    with pytest.raises(bloomfile.IncompatibleError, match="seed differs"):
        bloomfile.merge("m.bloom", ["a.bloom", "other.bloom"])
    for class_ in vars(bloomfile).values():
        if isinstance(class_, type) and issubclass(class_, Exception):
            assert issubclass(class_, bloomfile.Error)


def test_damage_is_told():
    bloomfile.build("a.bloom", ["sheep"])
    data = bytearray(open("a.bloom", "rb").read())
    data[-4096:] = bytes(4096)
    open("a.bloom", "wb").write(data)
    reader = bloomfile.open("a.bloom")
    assert "sheep" in reader and reader.health == "damaged"
    with pytest.raises(bloomfile.DamagedError, match="page 0") as damaged:
        reader.check("sheep")
    assert damaged.value.path == "a.bloom"
    assert bloomfile.verify("a.bloom").pages_damaged == [0]
    with pytest.raises(bloomfile.DamagedError):
        bloomfile.open("a.bloom", verify=True)
    assert "sheep" not in bloomfile.open("a.bloom", trust=True)


def test_a_closed_handle_says_so():
    for mode in ("r", "r+"):
        bloomfile.build("a.bloom", ["a"], replace=True)
        handle = bloomfile.open("a.bloom", mode)
        handle.close()
        handle.close()
        assert handle.closed and repr(handle).endswith("closed>")
        for call in (lambda: "a" in handle, lambda: handle.contains_many([]), lambda: len(handle)):
            with pytest.raises(bloomfile.ClosedError, match="is closed"):
                call()


def test_secrets():
    key = bytes(range(16))
    bloomfile.build("k.bloom", ["sheep"], secret=key)
    with pytest.raises(bloomfile.SecretError, match="is keyed"):
        bloomfile.open("k.bloom")
    with pytest.raises(bloomfile.SecretError, match="another secret"):
        bloomfile.open("k.bloom", secret=bytes(16))
    reader = bloomfile.open("k.bloom", secret=key)
    assert "sheep" in reader and "goat" not in reader
    with pytest.raises(TypeError, match="secret would be in the pickle"):
        pickle.dumps(reader)
    with bloomfile.open("k.bloom", "r+", secret=key) as filter:
        assert filter.add("goat")
    with open("k.key", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(key.hex() + "\n")
    assert "goat" in bloomfile.open("k.bloom", secret="k.key")
    with pytest.raises(ValueError, match="16 random bytes"):
        bloomfile.open("k.bloom", secret=b"short")


def test_a_pickled_reader_is_of_the_same_file():
    bloomfile.build("a.bloom", ["a"])
    reader = bloomfile.open("a.bloom", memory=True)
    pickled = pickle.dumps(reader)
    assert len(pickled) < 500, "the file is not in it"
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    again = pickle.loads(pickled)
    assert "a" in again and again.uuid == reader.uuid
    bloomfile.build("../a.bloom", ["b"], replace=True)
    with pytest.raises(bloomfile.DifferentError, match="is another file than the one"):
        pickle.loads(pickled)
    with bloomfile.open("../a.bloom", "r+") as filter:
        with pytest.raises(TypeError, match="one process writes"):
            pickle.dumps(filter)


def test_readers_go_to_other_processes():
    bloomfile.build("a.bloom", [str(number) for number in range(1000)])
    reader = bloomfile.open("a.bloom")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(reader.__contains__, ["1", "x", "999"]) == [True, False, True]


FORK = """
import os, sys, bloomfile
f = bloomfile.create("f.bloom", capacity=1000)
f.add("before")
child = os.fork()
if child == 0:
    try:
        f.add("from the child")
    except bloomfile.ForkedError as error:
        assert "forked" in str(error)
    else:
        os._exit(1)
    try:
        f.sync()
    except bloomfile.ForkedError:
        pass
    else:
        os._exit(2)
    if "before" not in f:
        os._exit(3)
    f = None
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert f.add("after")
f.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: forks, which this system has not")
def test_a_forked_child_cannot_write():
    done = subprocess.run([sys.executable, "-c", FORK], timeout=60)
    assert done.returncode == 0
    assert bloomfile.verify("f.bloom").sound
    reader = bloomfile.open("f.bloom")
    assert reader.contains_many(["before", "after", "from the child"]) == [True, True, False]


def test_threads():
    filter = bloomfile.create("t.bloom", capacity=80_000)
    reader = bloomfile.open("t.bloom")

    def work(thread):
        keys = [f"{thread} {number}" for number in range(10_000)]
        filter.update(keys)
        assert all(reader.contains_many(keys)) and all(filter.contains_many(keys))
        filter.sync()

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    filter.close()
    assert 79_000 < len(bloomfile.open("t.bloom")) <= 80_000


def test_other_threads_run_while_one_works():
    """The GIL is let go of: a thread counts while another builds a large file."""
    import numpy

    keys = numpy.arange(3_000_000)
    counted, done = 0, threading.Event()

    def build():
        bloomfile.build("big.bloom", keys, encoding="le64", fpr=1e-9)
        done.set()

    thread = threading.Thread(target=build)
    thread.start()
    while not done.wait(0.001):
        counted += 1
    thread.join()
    assert counted > 20


def test_closing_while_another_thread_asks():
    bloomfile.build("a.bloom", ["a"])
    keys = ["a"] * 200_000
    for _ in range(10):
        reader = bloomfile.open("a.bloom")
        failed = []

        def ask():
            try:
                assert all(reader.contains_many(keys))
            except bloomfile.ClosedError as error:
                failed.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        reader.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def test_reports():
    bloomfile.build("<a>.bloom", ["a"], capacity=100, metadata={"k": "<script>"})
    found = bloomfile.inspect("<a>.bloom")
    assert found.segments[0].adds == 1 and found.health == "clean"
    json.dumps(found.to_dict())
    assert found._repr_html_().count("&lt;a&gt;.bloom") > 0
    assert found == bloomfile.inspect("<a>.bloom")
    assert "capacity=100" in repr(found)
    with bloomfile.open("<a>.bloom", "r+") as filter:
        filter.add("b")
        filter.sync()
        assert 0 < filter.stats().longest_sync < 60


def test_a_notebook_shows_the_page_of_the_command(command):
    """The frame holds what `bloomfile inspect --html` writes, and nothing in it gets out."""
    import html
    import re

    bloomfile.build("<a>.bloom", ["a"], capacity=100, metadata={"<script>": "</iframe>"})
    shown = bloomfile.inspect("<a>.bloom")._repr_html_()
    frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox title="[^"]*" style="[^"]*"></iframe>', shown)
    page = html.unescape(frame.group(1))
    assert page == bloomfile.html_report("<a>.bloom")
    written = subprocess.run(
        [command, "inspect", "<a>.bloom", "--html", "-"], capture_output=True, text=True, check=True
    )
    assert page == written.stdout
    assert "&lt;script&gt;" in page and "<script>" not in page
    gone = bloomfile.inspect("<a>.bloom")
    os.remove("<a>.bloom")
    shown = gone._repr_html_()
    assert "cannot open" in shown and "capacity=100" in shown and "<a>" not in shown
