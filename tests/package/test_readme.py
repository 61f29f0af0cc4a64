"""The README's Python examples do what they show."""

import doctest

import pytest
from installation import ROOT

pytest.importorskip("mindspore")


def test_examples() -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=options)
    assert result.attempted > 5
    assert result.failed == 0
