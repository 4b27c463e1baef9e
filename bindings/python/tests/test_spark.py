"""Spark: small here; docs/parts.md has the large run. Needs pyspark and Java."""

import os
import shutil
import sys

import bloomfile
import pytest

pyspark = pytest.importorskip("pyspark", reason="skipped: Spark, which needs pyspark from pip")
if shutil.which("java") is None:
    pytest.skip("skipped: Spark, which needs Java", allow_module_level=True)

import bloomfile.spark  # noqa: E402


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    # The workers run the Python of this environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable

    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
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


@pytest.mark.parametrize("parts", [1, 2, 7, 64])
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


def test_the_order_of_rows_does_not_matter(spark):
    """At a high rate keys hide others: the file is the same for any order, and has the bits of build."""
    keys = [f"https://example.org/{number}" for number in range(KEYS)]
    bloomfile.build("once.bloom", keys, capacity=KEYS, fpr=0.3)
    frame = urls(spark)
    for name, rows in [("up", frame), ("down", frame.orderBy(frame["id"].desc()))]:
        bloomfile.spark.build(rows, "url", f"{name}.bloom", capacity=KEYS, fpr=0.3, parts=3)
        assert bloomfile.digest(f"{name}.bloom") == bloomfile.digest("once.bloom")
    assert open("up.bloom", "rb").read() == open("down.bloom", "rb").read()


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
