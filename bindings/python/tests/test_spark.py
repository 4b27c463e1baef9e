"""Spark: a short form in two threads, and with BLOOMFILE_SPARK=1 one with workers in processes of their
own, of which one is killed. docs/parts.md has the large run. Needs pyspark and Java."""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import bloomfile
import pytest

pyspark = pytest.importorskip("pyspark", reason="skipped: Spark, which needs pyspark from pip")
if shutil.which("java") is None:
    pytest.skip("skipped: Spark, which needs Java", allow_module_level=True)

import bloomfile.spark  # noqa: E402

LONG = bool(os.environ.get("BLOOMFILE_SPARK"))
long = pytest.mark.skipif(not LONG, reason="the long form of Spark: BLOOMFILE_SPARK=1")


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    # The workers run the Python of this environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable

    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]" if LONG else "local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


KEYS = 100_000


def urls(spark):
    return spark.range(KEYS).selectExpr("concat('https://example.org/', id) as url", "id")


@pytest.mark.parametrize("parts", [1, 2, 7, 64] if LONG else [7])
def test_the_bytes_are_those_of_one_build(spark, parts):
    keys = [f"https://example.org/{number}" for number in range(KEYS)]
    bloomfile.build("once.bloom", keys, capacity=KEYS, fpr=1e-9)
    built = bloomfile.spark.build(
        urls(spark), "url", "spark.bloom", capacity=KEYS, fpr=1e-9, parts=parts
    )
    assert built.keys == KEYS
    # At this rate no key hides another, so that the number of adds is the same in any order.
    assert open("once.bloom", "rb").read() == open("spark.bloom", "rb").read()
    assert not os.path.exists("spark.bloom.parts")


@long
def test_the_order_of_rows_does_not_matter(spark):
    """At a high rate keys hide others: the file is the same for any order, and has the bits of build."""
    keys = [f"https://example.org/{number}" for number in range(KEYS)]
    bloomfile.build("once.bloom", keys, capacity=KEYS, fpr=0.3)
    frame = urls(spark)
    for name, rows in [("up", frame), ("down", frame.orderBy(frame["id"].desc()))]:
        bloomfile.spark.build(rows, "url", f"{name}.bloom", capacity=KEYS, fpr=0.3, parts=3)
        assert bloomfile.digest(f"{name}.bloom") == bloomfile.digest("once.bloom")
    assert open("up.bloom", "rb").read() == open("down.bloom", "rb").read()


@long
def test_kinds_nulls_and_numbers(spark):
    rows = spark.range(1000).selectExpr("if(id % 2 = 0, id, null) as id")
    bloomfile.spark.build(
        rows, "id", "ids.bloom", capacity=1000, encoding="le64", kind="sealed", parts=2
    )
    bloomfile.build("once.bloom", range(0, 1000, 2), capacity=1000, encoding="le64", kind="sealed")
    assert open("once.bloom", "rb").read() == open("ids.bloom", "rb").read()
    with pytest.raises(bloomfile.ExistsError):
        bloomfile.spark.build(rows, "id", "ids.bloom", capacity=1000, encoding="le64")


def test_filter(spark):
    bloomfile.build("some.bloom", [f"https://example.org/{n}" for n in range(0, KEYS, 100)])
    kept = bloomfile.spark.filter(urls(spark), "url", "some.bloom")
    assert kept.columns == ["url", "id"]
    numbers = {row["id"] for row in kept.collect()}
    assert set(range(0, KEYS, 100)) <= numbers
    assert len(numbers) < KEYS / 100 + 0.02 * KEYS


@pytest.fixture
def bucket():
    """A bucket of a server on this machine, and what fsspec needs to reach it."""
    server = pytest.importorskip("moto.server", reason="skipped: object stores, which need moto")
    pytest.importorskip("s3fs", reason="skipped: object stores, which need s3fs")
    store = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    host, port = store.get_host_and_port()
    options = {
        "key": "testing",
        "secret": "testing",
        "client_kwargs": {"endpoint_url": f"http://{host}:{port}"},
    }
    import s3fs

    s3fs.S3FileSystem(**options).mkdir("filters")
    yield options
    store.stop()


def test_files_in_an_object_store(spark, bucket, tmp_path, monkeypatch):
    import s3fs

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = "s3://filters/urls.bloom"
    rows = urls(spark).where("id < 1000")
    made = dict(capacity=1000, fpr=1e-9, parts=2, storage_options=bucket)
    bloomfile.spark.build(rows, "url", path, **made)
    store = s3fs.S3FileSystem(**bucket, skip_instance_cache=True)
    assert store.ls("filters", refresh=True) == ["filters/urls.bloom"]
    keys = [f"https://example.org/{number}" for number in range(1000)]
    bloomfile.build("once.bloom", keys, capacity=1000, fpr=1e-9)
    assert store.cat("filters/urls.bloom") == Path("once.bloom").read_bytes()
    with pytest.raises(bloomfile.ExistsError, match="s3://filters/urls.bloom: already exists"):
        bloomfile.spark.build(rows, "url", path, **made)
    kept = bloomfile.spark.filter(urls(spark), "url", path, storage_options=bucket)
    assert sorted(row["id"] for row in kept.collect()) == list(range(1000))
    with pytest.raises(bloomfile.NotFoundError, match="no such object"):
        bloomfile.spark.filter(rows, "url", "s3://filters/none.bloom", storage_options=bucket)


def executors(application):
    """The processes of Spark's executors of one application."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                if application.encode() in words:
                    yield int(folder.name)


@long
def test_a_worker_that_is_killed_changes_nothing(spark):
    keys, parts = 1_000_000, 48
    rows = spark.range(keys).selectExpr("concat('https://example.org/', id) as url")
    bloomfile.build(
        "once.bloom",
        (f"https://example.org/{number}" for number in range(keys)),
        capacity=keys,
        fpr=1e-9,
    )
    killed = []

    def kill():
        folder = Path("spark.bloom.parts").absolute()
        while not folder.exists() or len(list(folder.glob("*.part"))) < 5:
            time.sleep(0.01)
        process = next(executors(spark.sparkContext.applicationId))
        os.kill(process, signal.SIGKILL)
        killed.append(len(list(folder.glob("*.part"))))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    bloomfile.spark.build(rows, "url", "spark.bloom", capacity=keys, fpr=1e-9, parts=parts)
    killer.join(10)
    # In the middle: some parts were there, and others had to be built after it.
    assert killed and 5 <= killed[0] < parts
    assert Path("once.bloom").read_bytes() == Path("spark.bloom").read_bytes()
    assert bloomfile.verify("spark.bloom").sound
