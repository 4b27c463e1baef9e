"""The documented examples of the packages that bloomfile.compat stands in for."""

import os
import pickle
from hashlib import sha256

import pytest
from bloomfile.compat import pybloomfilter
from bloomfile.compat.rbloom import Bloom


def test_the_quickstart_of_pybloomfiltermmap3():
    fruit = pybloomfilter.BloomFilter(100000, 0.1, "words.bloom")
    fruit.update(("apple", "pear", "orange", "apple"))
    assert len(fruit) == 3
    assert "mike" not in fruit
    assert "apple" in fruit
    fruit = pybloomfilter.BloomFilter(10000, 0.1)
    fruit.add("apple")
    assert "apple" in fruit
    unpickled_fruit = pickle.loads(pickle.dumps(fruit))
    assert "apple" in unpickled_fruit and "pear" not in unpickled_fruit


def test_the_reference_of_pybloomfiltermmap3():
    a = pybloomfilter.BloomFilter(1000, 0.01, "a.bloom", 0o600, [1, 2, 3])
    assert (a.capacity, a.error_rate, list(a.hash_seeds)) == (1000, 0.01, [1, 2, 3])
    assert os.stat("a.bloom").st_mode & 0o777 == 0o600
    assert a.add("x") is False and a.add("x") is True
    assert a.add(5) is False and 5 in a and "5" not in a
    b = a.copy_template("b.bloom")
    b.update(["y", "z"])
    a |= b
    assert "y" in a and "x" in a
    a &= b
    assert "y" in a and "x" not in a
    assert a.num_bits >= 9000 and a.num_hashes > 1 and a.bit_count > 0 and a.approx_len == 2
    assert a.bit_array.bit_count() == a.bit_count
    a.sync()
    copy = a.copy("copy.bloom")
    assert "y" in copy and copy.filename == os.path.abspath("copy.bloom")
    text = a.to_base64()
    assert "z" in pybloomfilter.BloomFilter.from_base64("text.bloom", text)
    a.clear_all()
    assert len(a) == 0 and "y" not in a
    a.close()
    with pytest.raises(ValueError, match="closed"):
        a.add("x")
    read = pybloomfilter.BloomFilter.open("copy.bloom", "r")
    assert read.read_only and "y" in read
    with pytest.raises(ValueError, match="read-only"):
        read.add("x")
    with pytest.raises(ValueError, match="not the same type"):
        copy.union(pybloomfilter.BloomFilter(5, 0.1))
    with pytest.raises(OSError):
        pybloomfilter.BloomFilter.open("none.bloom")
    with pytest.raises(ValueError, match="error_rate"):
        pybloomfilter.BloomFilter(5, 1.5)


def test_the_quickstart_of_rbloom():
    bf = Bloom(200, 0.01)
    bf.add("hello")
    assert "hello" in bf
    assert "world" not in bf
    bf.update(["hello", "world"])
    other_bf = Bloom(200, 0.01)
    other_bf.add("other")
    third_bf = bf | other_bf
    assert "world" in third_bf and "other" in third_bf
    third_bf = bf.copy()
    third_bf.update(other_bf)
    assert "world" in third_bf and "other" in third_bf
    assert bf.issubset(third_bf)
    assert bf <= third_bf and bf < third_bf and third_bf > bf and not third_bf <= bf


def hash_func(obj):
    h = sha256(pickle.dumps(obj)).digest()
    return int.from_bytes(h[:16], "big", signed=True)


def test_persistence_of_rbloom():
    bf = Bloom(10_000, 0.01, hash_func)
    bf.add("hello")
    bf.add(("a", "tuple"))
    bf.save("bf.bloom")
    loaded_bf = Bloom.load("bf.bloom", hash_func)
    assert loaded_bf == bf and ("a", "tuple") in loaded_bf
    loaded_bf_from_bytes = Bloom.load_bytes(bf.save_bytes(), hash_func)
    assert loaded_bf_from_bytes == bf
    loaded_bf.add("more")
    assert loaded_bf != bf and "more" not in bf


def test_sets_of_rbloom():
    a, b = Bloom(100, 0.01), Bloom(100, 0.01)
    assert not a
    a.update(["x", "y"], ["z"])
    b.update({"y", "z", 7})
    assert a and 7 in b and "7" not in b
    both = a & b
    assert "y" in both and "x" not in both
    assert "x" in a.union(["q"]) and "q" not in a
    assert a.intersection(["x"]).approx_items == pytest.approx(1, abs=0.1)
    a &= b
    assert "x" not in a
    a |= b
    assert 7 in a
    a.clear()
    assert not a and "y" not in a
    assert a.size_in_bits >= 900 and a.hash_func is hash
    with pytest.raises(ValueError, match="differ"):
        a | Bloom(100, 0.02)
    with pytest.raises(TypeError):
        a.add(1.5)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    import gc
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bf = Bloom(100, 0.01)
    bf.update(["x"])
    bf &= bf.copy()
    assert list(tmp_path.iterdir())
    del bf
    gc.collect()
    assert list(tmp_path.iterdir()) == []
