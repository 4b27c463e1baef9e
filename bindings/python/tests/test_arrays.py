"""Arrow, NumPy and those who make them."""

import bloomfile
import pytest

numpy = pytest.importorskip("numpy", reason="skipped: NumPy is not installed")
pyarrow = pytest.importorskip("pyarrow", reason="skipped: pyarrow is not installed")
polars = pytest.importorskip("polars", reason="skipped: polars is not installed")
pandas = pytest.importorskip("pandas", reason="skipped: pandas is not installed")
duckdb = pytest.importorskip("duckdb", reason="skipped: duckdb is not installed")

WORDS = [f"wörd {number} {'long ' * (number % 7)}" for number in range(20_000)]


@pytest.fixture
def words():
    bloomfile.build("words.bloom", WORDS)
    return open("words.bloom", "rb").read()


def types():
    return list(_types())


def _types():
    yield "string", pyarrow.array(WORDS)
    yield "large_string", pyarrow.array(WORDS, pyarrow.large_string())
    yield "string_view", pyarrow.array(WORDS, pyarrow.string_view())
    yield "binary", pyarrow.array([word.encode() for word in WORDS])
    yield "large_binary", pyarrow.array([word.encode() for word in WORDS], pyarrow.large_binary())
    yield "dictionary", pyarrow.array(WORDS).dictionary_encode()
    yield "sliced", pyarrow.array(["x"] * 13 + WORDS + ["y"]).slice(13, len(WORDS))
    yield "sliced dictionary", pyarrow.array(["x"] + WORDS).dictionary_encode().slice(1)
    yield "chunked", pyarrow.chunked_array([WORDS[:1], [], WORDS[1:9000], WORDS[9000:]])
    yield "table", pyarrow.table({"word": WORDS})
    yield "record batch", pyarrow.record_batch({"word": WORDS})
    yield "sliced record batch", pyarrow.record_batch({"word": ["x"] * 3 + WORDS}).slice(3)
    yield "polars", polars.Series(WORDS)
    yield "polars categorical", polars.Series(WORDS, dtype=polars.Categorical)
    yield "polars frame", polars.DataFrame({"word": WORDS})
    yield "pandas", pandas.Series(WORDS)
    yield "pandas arrow", pandas.Series(WORDS, dtype="string[pyarrow]")
    yield "pandas frame", pandas.DataFrame({"word": WORDS})
    yield "duckdb", duckdb.sql("select unnest($words) as word", params={"words": WORDS})
    yield "numpy text", numpy.array(WORDS)
    yield "numpy objects", numpy.array(WORDS, dtype=object)
    yield "numpy bytes", numpy.array([word.encode() for word in WORDS])


@pytest.mark.parametrize("name, keys", types())
def test_the_same_keys_give_the_same_file(words, name, keys):
    bloomfile.build("other.bloom", keys)
    assert open("other.bloom", "rb").read() == words
    with bloomfile.create("live.bloom", capacity=len(WORDS)) as live:
        if name == "duckdb":
            keys = duckdb.sql("select unnest($words) as word", params={"words": WORDS})
        live.update(keys)
        assert all(live.contains_many(WORDS))
    assert bloomfile.digest("live.bloom") == bloomfile.digest("words.bloom")


@pytest.mark.parametrize("name, keys", types())
def test_answers_come_as_the_keys_do(words, name, keys):
    reader = bloomfile.open("words.bloom")
    answers = reader.contains_many(keys)
    if name.startswith(("polars",)):
        assert isinstance(answers, polars.Series) and answers.dtype == polars.Boolean
    elif name.startswith("pandas frame"):
        assert isinstance(answers, pandas.Series)
    elif name.startswith("pandas"):
        assert isinstance(answers, (list, pandas.Series))
    elif name.startswith("numpy"):
        assert isinstance(answers, numpy.ndarray) and answers.dtype == bool
    elif name == "duckdb":
        assert isinstance(answers, bloomfile.ArrowColumn)
        answers = answers.to_pylist()
    else:
        assert isinstance(answers, pyarrow.BooleanArray)
    assert len(answers) == len(WORDS)
    assert all(answers.to_pylist() if hasattr(answers, "to_pylist") else list(answers))


def test_answers_are_those_of_single_look_ups(words):
    reader = bloomfile.open("words.bloom")
    asked = [word + suffix for word in WORDS for suffix in ("", "?")]
    expected = [word in reader for word in asked]
    assert reader.contains_many(asked) == expected
    assert reader.contains_many(pyarrow.array(asked)).to_pylist() == expected
    assert reader.contains_many(numpy.array(asked)).tolist() == expected
    assert not all(expected) and sum(expected) >= len(WORDS)


def test_nulls_are_asked_for_nothing_and_are_no_keys(words):
    reader = bloomfile.open("words.bloom")
    keys = pyarrow.array([WORDS[0], None, "absent"])
    for column in (keys, keys.dictionary_encode(), pyarrow.chunked_array([[WORDS[0]], [None, "absent"]])):
        assert reader.contains_many(column).to_pylist() == [True, None, False]
    assert reader.contains_many(pyarrow.nulls(3)).to_pylist() == [None] * 3
    assert reader.contains_many(polars.Series([WORDS[0], None])).to_list() == [True, None]
    with bloomfile.create("x.bloom", capacity=10) as filter:
        with pytest.raises(ValueError, match="drop the nulls"):
            filter.update(keys)
        filter.update(keys.drop_null())


@pytest.mark.parametrize("encoding", ["le64", "be64", "decimal"])
def test_numbers(encoding):
    numbers = list(range(-50, 50))
    bloomfile.build("n.bloom", numbers, encoding=encoding)
    expected = open("n.bloom", "rb").read()
    reader = bloomfile.open("n.bloom")
    for keys in (
        pyarrow.array(numbers),
        pyarrow.array(numbers, pyarrow.int8()),
        pyarrow.array(numbers, pyarrow.int32()).slice(0),
        numpy.array(numbers),
        numpy.array(numbers, dtype="i2"),
        numpy.array(numbers, dtype=">i8"),
        numpy.arange(-50, 150)[:100],
        numpy.repeat(numpy.array(numbers), 2)[::2],
        polars.Series(numbers),
        pandas.Series(numbers),
        range(-50, 50),
    ):
        bloomfile.build("other.bloom", keys, encoding=encoding, replace=True)
        assert open("other.bloom", "rb").read() == expected, type(keys)
        assert all(reader.contains_many(keys))
    unsigned = numpy.array([2**64 - 1], dtype="u8")
    assert reader.contains_many(unsigned)[0] == (encoding != "decimal")
    assert numpy.int64(7) in reader and 10**6 not in reader


def test_numbers_without_an_encoding_are_refused(words):
    reader = bloomfile.open("words.bloom")
    for keys in (pyarrow.array([1]), numpy.array([1]), polars.Series([1])):
        with pytest.raises(TypeError, match="encoding"):
            reader.contains_many(keys)


@pytest.mark.parametrize(
    "keys",
    [
        pyarrow.array([1.5]),
        pyarrow.array([[1]]),
        numpy.array([1.5]),
        pyarrow.table({"a": ["x"], "b": ["y"]}),
        numpy.array([["a"]]),
        numpy.zeros((2, 2), dtype="u1"),
    ],
)
def test_other_types_are_refused(words, keys):
    with pytest.raises(TypeError):
        bloomfile.open("words.bloom").contains_many(keys)


def test_fixed_size_binary():
    sums = [bytes([number]) * 16 for number in range(100)]
    bloomfile.build("s.bloom", sums)
    column = pyarrow.array(sums, pyarrow.binary(16))
    assert all(bloomfile.open("s.bloom").contains_many(column).to_pylist())
    bloomfile.build("t.bloom", column)
    assert open("s.bloom", "rb").read() == open("t.bloom", "rb").read()


def test_a_stream_that_fails_says_so():
    schema = pyarrow.schema({"a": pyarrow.string()})

    def batches():
        yield pyarrow.record_batch({"a": ["x"]}, schema=schema)
        raise RuntimeError("the source broke")

    stream = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(ValueError, match="the source broke"):
        bloomfile.build("x.bloom", stream, capacity=10)


def test_hashes_are_arrow_and_can_be_added():
    column = bloomfile.Hasher().hash_many(pyarrow.array(WORDS))
    assert column.type == pyarrow.uint64()
    with bloomfile.create("h.bloom", capacity=len(WORDS)) as filter:
        filter.update_hashes(column)
        assert all(filter.contains_many(WORDS))
    with bloomfile.create("i.bloom", capacity=len(WORDS)) as filter:
        filter.update_hashes(column.to_numpy().view("i8"))
        assert all(filter.contains_many(WORDS))


def test_memory_is_given_back():
    import resource

    bloomfile.build("words.bloom", WORDS)
    reader, keys = bloomfile.open("words.bloom"), pyarrow.array(WORDS * 10)
    used = []
    for round in range(120):
        reader.contains_many(keys)
        if round in (20, 119):
            used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert used[1] - used[0] < 20_000
