"""What is a key, and what it is hashed to."""

import array
import io
import re
import subprocess
import sys
from pathlib import Path

import bloomfile
import pytest

def vectors():
    """The table of docs/encoding.md."""
    page = (Path(__file__).parents[3] / "docs" / "encoding.md").read_text()
    for row in re.findall(r"^\| (.*) \| (\w*) ?\| (\d+) \| (0x\w{16}) \|$", page, re.MULTILINE):
        key, encoding, seed, expected = row
        key = int(key.replace("−", "-")) if encoding else key.strip("`")
        yield key, encoding or None, int(seed), int(expected, 16)


VECTORS = [*vectors(), (bytes(64), None, 0, 0xECFF386A0B716520)]


def test_the_table_was_read():
    assert len(VECTORS) == 9


@pytest.mark.parametrize("key, encoding, seed, expected", VECTORS)
def test_the_vectors_of_the_specification(key, encoding, seed, expected):
    hasher = bloomfile.Hasher(seed=seed, encoding=encoding)
    assert hasher.hash(key) == expected
    assert hasher.hash_many([key]).to_pylist() == [expected]
    if isinstance(key, str):
        assert hasher.hash(key.encode()) == expected


def test_keyed_vectors():
    hasher = bloomfile.Hasher(secret=bytes(range(16)))
    assert hasher.hash("bloomfile") == 0xADA8C79908F5E496


def test_bytes_and_what_is_like_them_are_one_key():
    hash = bloomfile.Hasher().hash
    expected = hash("schön")
    data = "schön".encode()
    for key in (data, bytearray(data), memoryview(data), array.array("B", data)):
        assert hash(key) == expected
    assert hash(memoryview(b"-s-c-h-")[1::2]) == hash("sch")


@pytest.mark.parametrize(
    "key", [1.5, None, True, ("a",), object(), ["a"], {"a"}, array.array("d", [1.0])]
)
def test_everything_else_is_a_type_error_that_tells_how_to_encode_it(key):
    with pytest.raises(TypeError, match="encode it.*hash()"):
        bloomfile.Hasher().hash(key)


def test_numbers_need_an_encoding():
    with pytest.raises(TypeError, match='encoding="le64"'):
        bloomfile.Hasher().hash(17)
    plain = bloomfile.Hasher()
    for encoding, key in [
        ("le64", (17).to_bytes(8, "little")),
        ("be64", (17).to_bytes(8, "big")),
        ("decimal", b"17"),
    ]:
        assert bloomfile.Hasher(encoding=encoding).hash(17) == plain.hash(key)
    le64 = bloomfile.Hasher(encoding="le64")
    assert le64.hash(-1) == le64.hash(2**64 - 1) == plain.hash(b"\xff" * 8)
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError):
            le64.hash(number)
    assert bloomfile.Hasher(encoding="decimal").hash(10**30) == plain.hash(str(10**30))
    with pytest.raises(bloomfile.ParameterError, match="le64, be64 or decimal"):
        bloomfile.Hasher(encoding="le16")
    with pytest.raises(TypeError, match="whole numbers"):
        le64.hash("17")


def test_text_that_is_no_unicode_is_refused():
    with pytest.raises(UnicodeEncodeError):
        bloomfile.Hasher().hash("\ud800")


def test_a_single_key_is_not_many():
    for keys in ("abc", b"abc", bytearray(b"abc"), memoryview(b"abc")):
        with pytest.raises(TypeError, match="put it in a list"):
            bloomfile.Hasher().hash_many(keys)


def test_iterables_files_and_lists_give_the_same_file():
    words = [f"word {number}" for number in range(100_000)]
    text = "".join(f"{word}\n" for word in words)
    bloomfile.build("list.bloom", words)
    expected = open("list.bloom", "rb").read()
    for name, keys in [
        ("tuple", tuple(words)),
        ("generator", (word for word in words)),
        ("dictionary", dict.fromkeys(words)),
        ("text", io.StringIO(text)),
        ("bytes", io.BytesIO(text.encode())),
        ("without an end", io.StringIO(text[:-1])),
    ]:
        bloomfile.build(f"{name}.bloom", keys)
        assert open(f"{name}.bloom", "rb").read() == expected, name


def test_an_error_of_the_iterator_comes_through_and_leaves_no_file(tmp_path):
    def keys():
        yield "a"
        raise ZeroDivisionError

    for capacity in (None, 10):
        with pytest.raises(ZeroDivisionError):
            bloomfile.build("x.bloom", keys(), capacity=capacity)
    assert list(tmp_path.iterdir()) == []


def test_hashes_are_the_same_in_every_process():
    code = "import bloomfile; print(bloomfile.Hasher().hash('sheep'))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{bloomfile.Hasher().hash('sheep')}\n".encode()}


def test_the_command_makes_the_same_file(command):
    words = [f"wörd {number}" for number in range(5000)]
    open("words.txt", "w").write("".join(f"{word}\n" for word in words))
    open("numbers.txt", "w").write("".join(f"{number}\n" for number in range(-10, 5000)))
    run = lambda *arguments: subprocess.run([command, *arguments], check=True, capture_output=True)
    for options, keywords in [
        ([], {}),
        (["--fpr", "0.0001"], {"fpr": 0.0001}),
        (["--sealed"], {"kind": "sealed"}),
        (["--seed", "7", "--meta", "a=b"], {"seed": 7, "metadata": {"a": "b"}}),
    ]:
        run("build", "-q", "--force", "command.bloom", "words.txt", *options)
        bloomfile.build("python.bloom", words, replace=True, **keywords)
        assert open("command.bloom", "rb").read() == open("python.bloom", "rb").read(), options
    for encoding in ("le64", "be64", "decimal"):
        run("build", "-q", "--force", "command.bloom", "numbers.txt", "--encoding", encoding)
        bloomfile.build("python.bloom", range(-10, 5000), encoding=encoding, replace=True)
        assert open("command.bloom", "rb").read() == open("python.bloom", "rb").read(), encoding
        assert all(bloomfile.open("command.bloom").contains_many(range(-10, 5000)))
    run("build", "-q", "--force", "command.bloom", "words.txt", "--lower")
    with pytest.raises(TypeError, match="keys.form = lower"):
        "wörd 1" in bloomfile.open("command.bloom")
    assert "wörd 1".encode() in bloomfile.open("command.bloom")
