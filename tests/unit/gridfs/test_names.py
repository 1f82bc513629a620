"""What `motorlite.gridfs` offers."""

from __future__ import annotations

from motorlite import gridfs
from motorlite.gridfs import errors


def test_errors_are_in_both_modules() -> None:
    for name in errors.__all__:
        assert getattr(gridfs, name) is getattr(errors, name)


def test_a_star_import_takes_no_module() -> None:
    assert all(isinstance(getattr(gridfs, name), (type, int)) for name in gridfs.__all__)
