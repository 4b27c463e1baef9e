"""Filters in parts."""

import pickle

import bloomfile
import pytest

WORDS = [f"word {number}" for number in range(50_000)]


@pytest.mark.parametrize("kind", ["plain", "sealed"])
@pytest.mark.parametrize("parts", [1, 2, 7, 64])
def test_parts_give_the_bytes_of_one_build(parts, kind):
    bloomfile.build("once.bloom", WORDS, capacity=len(WORDS), fpr=0.001, kind=kind)
    plan = bloomfile.plan_parts(parts, capacity=len(WORDS), fpr=0.001, kind=kind)
    names = []
    for part in range(1, parts + 1):
        builder = pickle.loads(pickle.dumps(plan)).start(part, f"{part}.part")
        builder.update(WORDS)
        assert builder.finish().part == part
        names.append(f"{part}.part")
    joined = bloomfile.join("joined.bloom", names[::-1])
    assert open("once.bloom", "rb").read() == open("joined.bloom", "rb").read()
    assert joined.file_bytes == plan.file_bytes


def test_hashes_are_split_by_part():
    plan = bloomfile.plan_parts(5, capacity=100_000, encoding="le64")
    split = plan.split(range(1000))
    assert [part for part, _ in split] == [1, 2, 3, 4, 5]
    assert sum(len(hashes) for _, hashes in split) == 8000
    for part, hashes in split:
        words = memoryview(hashes).cast("Q")
        assert all(plan.part_of(word) == part for word in words)
        builder = plan.start(part, f"{part}.part", any_order=True)
        assert builder.update_hashes(words) == len(words)
        builder.finish()
        with pytest.raises(bloomfile.ClosedError, match="finished"):
            builder.finish()
    bloomfile.join("all.bloom", [f"{part}.part" for part in range(1, 6)])
    assert all(bloomfile.open("all.bloom").contains_many(range(1000)))


def test_mistakes():
    plan = bloomfile.plan_parts(2, capacity=100)
    plan.start(1, "1.part").finish()
    with pytest.raises(ValueError, match="part 2 of 2 is missing"):
        bloomfile.join("x.bloom", ["1.part"])
    with pytest.raises(ValueError, match="there are 2"):
        plan.start(3, "3.part")
    with pytest.raises(ValueError, match="has no parts"):
        bloomfile.plan_parts(2, capacity=100, layout="rows")
    with pytest.raises(bloomfile.BadFileError, match="join it with the others"):
        bloomfile.open("1.part")
    with pytest.raises(bloomfile.BadFileError, match="is not a part"):
        bloomfile.PartPlan.from_bytes(b"no plan")
    secret = bytes(range(16))
    keyed = bloomfile.plan_parts(1, capacity=100, secret=secret)
    assert secret not in pickle.dumps(keyed)
    with pytest.raises(bloomfile.SecretError):
        keyed.start(1, "k.part")
    keyed.start(1, "k.part", secret=secret).finish()
