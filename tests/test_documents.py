"""What the retry specifications require a driver to document, and its release notes to say; links and navigation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from motorlite.retry.overload import MAX_ADAPTIVE_RETRIES
from scripts.site.links import OUTSIDE, in_repository, is_external, repository_url, resolve, targets
from tests.support.code_blocks import blocks

REPOSITORY: Final = Path(__file__).resolve().parents[1]
RETRIES: Final = (REPOSITORY / "docs" / "retries.md").read_text(encoding="utf-8")
STRATEGIES: Final = (REPOSITORY / "docs" / "retry-strategies.md").read_text(encoding="utf-8")
CHANGES: Final = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")

# Retryable reads specification, "Supported Read Operations".
SUPPORTED: Final = (
    "collection.find",
    "collection.find_one",
    "collection.aggregate",
    "collection.distinct",
    "collection.estimated_document_count",
    "collection.count_documents",
    "collection.list_indexes",
    "database.list_collections",
    "client.list_databases",
    "collection.watch",
    "database.watch",
    "client.watch",
)
# "Unsupported Read Operations".
UNSUPPORTED: Final = ("cursor.next", "database.command", "database.cursor_command")


def words(text: str) -> str:
    """The text in one line."""
    return " ".join(text.split())


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next one of any level."""
    _, found, rest = page.partition(f"# {title}\n")
    assert found, f"there is no section {title!r}"
    return re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows() -> dict[str, list[str]]:
    """The cells of all calls in docs/retries.md, by the call without its arguments."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in RETRIES.splitlines() if "(" in line[:60]]
    return {row[0].strip("`").partition("(")[0]: row for row in reversed(cells) if len(row) == 5}


def test_all_operations_are_documented_to_be_retried_on_overload() -> None:
    """Client backpressure, "Documentation", 1."""
    assert "Every command is retried after them, at most 5 times" in words(RETRIES)
    calls = rows()
    assert len(calls) > 40
    assert all(re.match(r"retry(Reads|Writes)\b|no option", overload) for _, _, overload, *_ in calls.values())


def test_the_release_notes_warn_of_retries_that_multiply() -> None:
    """Client backpressure, "Documentation", 2; retryable reads, "Documentation", 3."""
    note = words(section(CHANGES, "Before you upgrade"))
    assert "All operations are retried on server overload" in note
    assert f"n attempts become up to {MAX_ADAPTIVE_RETRIES + 1}n attempts (2n for an ordinary retryable error)" in note
    assert "adjust or remove your own retry logic" in note


@pytest.mark.parametrize("call", SUPPORTED)
def test_reads_that_are_retried_are_documented(call: str) -> None:
    """Retryable reads, "Documentation", 1."""
    assert rows()[call][3] == "once (retryReads)"


@pytest.mark.parametrize("call", UNSUPPORTED)
def test_reads_that_are_not_retried_are_documented(call: str) -> None:
    """Retryable reads, "Documentation", 2."""
    assert rows()[call][3] == "never"


def test_why_they_are_not_retried_is_documented() -> None:
    """The same: getMore, runCommand, and mapReduce, which has no method here."""
    exceptions = words(section(RETRIES, "Exceptions to the ordinary rule"))
    assert "`getMore`, because a batch could be lost" in exceptions
    assert "even for reads, because the driver does not inspect the command" in exceptions
    assert "**`mapReduce`** has no method of its own, so it is sent this way and never retried" in exceptions


def test_the_order_of_operations_is_documented() -> None:
    """SDK3 retry handling: "the SDK does not provide any reordering guarantees for pipelined operations"."""
    text = words(section(STRATEGIES, "What follows its answer"))
    assert (
        "**Operations of several tasks have no order.** A retried operation may end after one that began later." in text
    )


# --- README, SECURITY and pyproject.toml: read where relative links lead nowhere ---

PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ELSEWHERE: Final = ("README.md", "SECURITY.md")


def lead_to(page: str) -> list[str]:
    """Where the links of a page lead: those to the project as paths in the repository."""
    found = targets((REPOSITORY / page).read_text(encoding="utf-8"))
    return [in_repository(target) or target.replace(f"{repository_url()}#", "README.md#") for target in found]


@pytest.mark.parametrize("page", ELSEWHERE)
def test_links_that_the_package_index_shows_are_absolute_and_alive(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert [target for target in targets(text) if not is_external(target)] == []
    inside = [path for path in lead_to(page) if not is_external(path)]
    assert inside
    for path in inside:
        resolve("README.md", path)


def test_the_address_of_the_project_is_the_same_everywhere() -> None:
    owner, _, name = repository_url().removeprefix("https://github.com/").partition("/")
    for page in (*ELSEWHERE, "CONTRIBUTING.md", "mkdocs.yml", "docs/index.md"):
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        assert set(re.findall(rf"(?:github|githubusercontent)\.com/{owner}/([\w-]+)", text)) <= {name}, page
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= PROJECT["urls"].keys()
    for url in PROJECT["urls"].values():
        assert url.startswith(repository_url())
        if path := in_repository(url):
            resolve("README.md", path)


def test_the_readme_is_short_and_begins_with_how_to_install() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    assert blocks("README.md")[0].text == "pip install motorlite\n"
    assert "fast at point reads" in words(text).lower()


def test_every_page_is_in_the_navigation_once() -> None:
    listed: list[str] = []

    def walk(entry: Any) -> None:
        for each in entry.values() if isinstance(entry, dict) else entry:
            if isinstance(each, str):
                listed.append(each)
            else:
                walk(each)

    walk(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    pages = [path.relative_to(REPOSITORY / "docs").as_posix() for path in (REPOSITORY / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*pages, *OUTSIDE.values(), "reference/"])
