from __future__ import annotations

import pytest

from benchmarks.driver.tasks import COMPOSITES, TASKS, Iteration, Scale, composites, percentile, scores, verdict


@pytest.mark.parametrize(("percent", "expected"), [(1, 1), (10, 1), (50, 5), (75, 7), (99, 9)])
def test_the_percentile_is_the_nearest_rank_of_the_specification(percent: int, expected: int) -> None:
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], percent) == expected


def test_a_percentile_of_few_values_is_the_first() -> None:
    assert percentile([7], 50) == 7


def test_the_sizes_are_those_of_the_specification() -> None:
    sizes = {task.name: task.megabytes(Scale()) for task in TASKS.values()}
    assert sizes["run_command"] == pytest.approx(0.13)
    assert sizes["find_one"] == sizes["find_many"] == pytest.approx(16.22)
    assert sizes["small_insert_one"] == pytest.approx(2.75)
    assert sizes["large_bulk_write"] == pytest.approx(27.31089)
    assert sizes["mixed_bulk_write"] == sizes["mixed_client_bulk_write"] == pytest.approx(5.5)
    assert sizes["upload"] == pytest.approx(52.4288)
    assert sizes["import"] == pytest.approx(565)
    assert sizes["multi_download"] == pytest.approx(262.144)


def test_the_composites_have_the_tasks_of_the_specification() -> None:
    assert COMPOSITES["SingleBench"] == ["find_one", "small_insert_one", "large_insert_one"]
    assert COMPOSITES["ReadBench"] == ["find_one", "find_many", "download", "export", "multi_download"]
    assert {name: len(members) for name, members in COMPOSITES.items()} == {
        "SingleBench": 3,
        "MultiBench": 11,
        "ParallelBench": 4,
        "ReadBench": 5,
        "WriteBench": 13,
    }


def iteration(task: str, arm: str, seconds: float) -> Iteration:
    return Iteration(task, arm, seconds, 0.1)


def test_a_score_is_the_size_over_the_median_time() -> None:
    found = scores([iteration("upload", "a", seconds) for seconds in (9.0, 2.0, 1.0)], Scale())
    assert found == {("upload", "a"): pytest.approx(52.4288)}
    found = scores([iteration("import", "a", 1.0)], Scale(text_files=2))
    assert found == {("import", "a"): pytest.approx(11.3)}


def test_composites_are_averages_of_what_all_have_done() -> None:
    found = {("find_one", "a"): 10.0, ("find_many", "a"): 30.0, ("upload", "a"): 60.0, ("find_one", "b"): 5.0}
    tasks = ["find_one", "find_many", "upload"]
    assert composites(found, "a", tasks) == {
        "SingleBench": 10.0,
        "MultiBench": 45.0,
        "ReadBench": 20.0,
        "WriteBench": 60.0,
        "DriverBench": 40.0,
    }
    assert composites(found, "b", tasks) == {"SingleBench": 5.0}


def test_no_python_peer_may_be_faster() -> None:
    found = {
        ("find_one", "motorlite"): 10.0,
        ("find_one", "pymongo"): 5.0,
        ("find_one", "mongojet"): 20.0,
        ("upload", "motorlite"): 10.0,
        ("upload", "pymongo"): 5.0,
        ("upload", "pymongo-sync"): 20.0,
        ("download", "motorlite"): 10.0,
        ("export", "motor"): 10.0,
    }
    assert verdict(found) == [
        ("Find one by ID (2.00 times pymongo)", True),
        ("GridFS upload (0.50 times pymongo-sync)", False),
    ]
