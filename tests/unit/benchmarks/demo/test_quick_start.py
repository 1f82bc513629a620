from __future__ import annotations

import pytest

from benchmarks.demo.quick_start import aimed_at, quick_start

README = """# name
```python
other = 1
```
<!-- quick start -->
Some words, and a shell:
```sh
pip install motorlite
```

```python
first = 1

second = 2
```

```python
third = 3
```
"""


def test_the_first_python_block_after_the_marker_is_the_quick_start() -> None:
    assert quick_start(README) == "first = 1\n\nsecond = 2\n"


@pytest.mark.parametrize("readme", ["", "```python\nx\n```\n", "<!-- quick start -->\n```sh\nx\n```\n"])
def test_a_readme_without_one_is_an_error(readme: str) -> None:
    with pytest.raises(ValueError, match="no ```python block"):
        quick_start(readme)


@pytest.mark.parametrize(
    "text",
    [
        'Client("mongodb://localhost")',
        'Client("mongodb://localhost:27017")',
        "Client('mongodb://127.0.0.1:27017/?replicaSet=rs0&x=y')",
    ],
)
def test_a_local_address_is_replaced_as_a_whole(text: str) -> None:
    quote = text[7]
    assert aimed_at(text, "mongodb://new:1/?a") == f"Client({quote}mongodb://new:1/?a{quote})"


def test_other_addresses_stay() -> None:
    assert aimed_at('"mongodb://db.example.com"', "mongodb://new") == '"mongodb://db.example.com"'
