"""Without the extra, one error names it."""

from __future__ import annotations

import runpy
import sys

import pytest

from motorlite.arrow import _extra


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymongoarrow", None)
    monkeypatch.setitem(sys.modules, "pymongoarrow.lib", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"motorlite\.arrow needs pymongoarrow.*'motorlite\[arrow\]'"
    ) as caught:
        runpy.run_path(_extra.__file__)
    assert caught.value.name
