from __future__ import annotations

import pytest

from motorlite.testing.cycles import cyclic_components, lightest_cycle


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ([], []),
        ([[1], [2], []], []),
        ([[1], [0]], [[0, 1]]),
        ([[1, 2], [2], [3], [1]], [[1, 2, 3]]),
        ([[1], [0, 2], [3], [2]], [[0, 1], [2, 3]]),
        ([[1, 2], [3], [3], []], []),
    ],
)
def test_components(graph: list[list[int]], expected: list[list[int]]) -> None:
    assert sorted(sorted(component) for component in cyclic_components(graph)) == expected


def test_a_long_path_needs_no_stack() -> None:
    size = 50_000
    graph = [[node + 1] for node in range(size)] + [[0]]
    (component,) = cyclic_components(graph)
    assert len(component) == size + 1


def test_the_lightest_cycle() -> None:
    graph = [[1, 3], [2], [0], [0]]
    heavy = {(0, 3): 5}
    assert sorted(lightest_cycle(graph, [0, 1, 2, 3], lambda a, b: 1)) == [0, 3]
    assert sorted(lightest_cycle(graph, [0, 1, 2, 3], lambda a, b: heavy.get((a, b), 1))) == [0, 1, 2]
