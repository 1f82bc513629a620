from __future__ import annotations

import pytest

from benchmarks.scale.sections import NAMES, SECTIONS, SERVERS, VARIANTS
from benchmarks.speed.workloads import WORKLOADS


def test_every_case_has_a_workload_and_servers() -> None:
    for section in SECTIONS.values():
        assert {case.operation for case in section.cases} <= set(WORKLOADS)
        assert {VARIANTS[variant].server for variant in section.variants} <= set(SERVERS)
    assert list(NAMES) == ["a", "b", "c", "d", "e", "f"]


def test_no_two_cases_of_a_section_have_the_same_results() -> None:
    for section in SECTIONS.values():
        assert len({(case.title, case.tasks) for case in section.cases}) == len(section.cases)


@pytest.mark.parametrize(
    ("letter", "count", "titles"),
    [
        ("a", 10, {"find_one by _id", "mixed operations"}),
        ("b", 4, {f"find_one by _id, client processes: {number}" for number in (1, 2, 4, 8)}),
        ("c", 4, {f"find_one, a reply of {size} KB" for size in ("0.1", "1", "10", "100")}),
        ("d", 10, None),
        ("e", 2, {"find_one by _id, three members, nearest"}),
    ],
)
def test_the_sections_are_complete(letter: str, count: int, titles: set[str] | None) -> None:
    cases = SECTIONS[letter].cases
    assert len(cases) == count
    assert titles is None or {case.title for case in cases} == titles


def test_a_variant_has_as_many_processes_as_its_largest_case() -> None:
    assert SECTIONS["b"].processes() == 8
    assert SECTIONS["d"].processes("TLS") == 1
    assert SECTIONS["d"].variants == ["", "TLS", "zlib", "zstd", "snappy"]


def test_a_quick_run_leaves_cases_out() -> None:
    assert [case.tasks for case in SECTIONS["a"].without([8, 10_000], [4]).cases] == [1, 50, 500] * 2
    assert SECTIONS["b"].without([8], [4, 8]).processes() == 2
