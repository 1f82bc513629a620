"""Pure: cycles of a directed graph whose nodes are numbers."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = ["cyclic_components", "lightest_cycle"]

Graph = list[list[int]]
"""The successors of each node."""

EFFORT: Final = 300_000
"""Nodes that the search for a light cycle visits before it is content with what it has."""


def cyclic_components(graph: Graph) -> list[list[int]]:
    """The strongly connected components with more than one node, by Tarjan's algorithm without recursion.

    Nodes that point to themselves are not looked for.
    """
    index = [0] * len(graph)  # in the order of discovery, from 1 on; 0: not discovered
    low = [0] * len(graph)
    is_open = bytearray(len(graph))
    discovered = 0
    open_nodes: list[int] = []
    components = []
    for root in range(len(graph)):
        if index[root]:
            continue
        path = [(root, iter(graph[root]))]
        discovered += 1
        index[root] = low[root] = discovered
        open_nodes.append(root)
        is_open[root] = True
        while path:
            node, successors = path[-1]
            for successor in successors:
                if not index[successor]:
                    discovered += 1
                    index[successor] = low[successor] = discovered
                    open_nodes.append(successor)
                    is_open[successor] = True
                    path.append((successor, iter(graph[successor])))
                    break
                if is_open[successor] and index[successor] < low[node]:
                    low[node] = index[successor]
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == index[node]:
                    component = _closed(node, open_nodes, is_open)
                    if len(component) > 1:
                        components.append(component)
    return components


def _closed(root: int, open_nodes: list[int], is_open: bytearray) -> list[int]:
    """The component whose first node is `root`; it is complete."""
    component: list[int] = []
    while not component or component[-1] != root:
        component.append(open_nodes.pop())
        is_open[component[-1]] = False
    return component


def lightest_cycle(graph: Graph, component: Collection[int], weight: Callable[[int, int], int]) -> list[int]:
    """The nodes of the lightest cycle, or of a light one if the component is so large that the search takes too long.

    Args:
        graph: The graph.
        component: A strongly connected component with more than one node.
        weight: The weight of the edge between two nodes; 0 or more.
    """
    inside = frozenset(component)
    best: list[int] = []
    least = None
    for start in sorted(inside)[: max(3, EFFORT // len(inside))]:
        total, cycle = _cycle_through(start, graph, inside, weight)
        if least is None or total < least:
            least, best = total, cycle
    return best


def _cycle_through(
    start: int, graph: Sequence[Sequence[int]], inside: frozenset[int], weight: Callable[[int, int], int]
) -> tuple[int, list[int]]:
    """Dijkstra's algorithm, from `start` back to it."""
    before: dict[int, int] = {}
    queue = [(0, start, start)]
    total = 0
    while queue:
        total, node, origin = heappop(queue)
        if node in before:
            continue
        if total or origin != node:
            before[node] = origin
            if node == start:
                break
        for successor in graph[node]:
            if successor in inside and successor not in before:
                heappush(queue, (total + weight(node, successor), successor, node))
    cycle = [before[start]]
    while cycle[-1] != start:
        cycle.append(before[cycle[-1]])
    return total, cycle[::-1]
