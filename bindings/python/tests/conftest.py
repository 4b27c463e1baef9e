import os

import pytest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command():
    """The bloomfile command, where one was built."""
    path = os.environ.get("BLOOMFILE_COMMAND")
    if not path:
        pytest.skip("skipped: the comparison with the command, which BLOOMFILE_COMMAND names")
    return path
