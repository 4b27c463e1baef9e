"""The examples of all docstrings and of the README run."""

import doctest
import importlib.util
import inspect
import re
from pathlib import Path

import bloomfile
import bloomfile.compat.pybloomfilter
import bloomfile.compat.rbloom
import pytest


def documented():
    for module in (bloomfile, bloomfile.compat.pybloomfilter, bloomfile.compat.rbloom):
        yield module.__name__, module.__doc__
    for name in bloomfile.__all__:
        thing = getattr(bloomfile, name)
        yield name, thing.__doc__
        if isinstance(thing, type):
            for member, value in vars(thing).items():
                described = callable(value) or inspect.isdatadescriptor(value)
                if described and not member.startswith("_"):
                    yield f"{name}.{member}", getattr(value, "__doc__", None)


def test_everything_public_is_documented():
    assert not {name for name, text in documented() if not text}


def examples():
    parser = doctest.DocTestParser()
    for name, text in documented():
        if text and ">>>" in text:
            yield pytest.param(parser.get_doctest(text, {"bloomfile": bloomfile}, name, None, 0), id=name)


@pytest.mark.parametrize("example", list(examples()))
def test_the_examples_of_docstrings(example):
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert results.attempted > 0 and results.failed == 0


def test_there_are_examples():
    assert len(list(examples())) >= 20


PAGES = ["bindings/python/README.md", "docs/encoding.md", "docs/parts.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_pages(page):
    text = (Path(__file__).parents[3] / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        if "import dask" in block and importlib.util.find_spec("dask") is None:
            print("skipped: the example of Dask, which is not installed")
            continue
        exec(compile(block, page, "exec"), {})
