"""What the retry specifications require a driver to document, and its release notes to say; links and navigation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from motorlite.retry.overload import MAX_ADAPTIVE_RETRIES
from scripts.site.hooks import OUTSIDE, URL
from scripts.site.links import RAW, in_repository, is_external, problem, targets
from tests.support.code_blocks import blocks, documents

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


# --- links, addresses and commands ---

PYPROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT: Final = PYPROJECT["project"]
README: Final = (REPOSITORY / "README.md").read_text(encoding="utf-8")
INDEX_TEXT: Final = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
# Files that show commands to users.
SHOWN: Final = [
    *documents(),
    *(
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("motorlite", "pytest_motorlite", "benchmarks", "examples", "scripts")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
    ),
]
UNQUOTED: Final = re.compile(r"pip install (?:-\S+ )*[\w.]+\[")


def on_the_index(text: str) -> str:
    """The README as a package index shows it: the settings of pyproject.toml, applied as the build applies them."""
    for each in INDEX_TEXT["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


@pytest.mark.parametrize("page", documents())
def test_links_are_relative_and_alive(page: str) -> None:
    """So that they work wherever the repository is."""
    found = targets((REPOSITORY / page).read_text(encoding="utf-8"))
    assert [target for target in found if target.startswith((URL, RAW))] == []
    assert [line for target in found if not is_external(target) and (line := problem(page, target))] == []


def test_the_readme_leads_to_what_belongs_to_overload() -> None:
    assert set(targets(README)) >= {
        f"docs/{name}.md" for name in ("overload", "wait-queue", "retry-strategies", "limits")
    }


def test_the_address_of_the_project_is_in_one_place() -> None:
    address = URL.removeprefix("https://")
    pages = [*documents(), "mkdocs.yml", *(path for path in SHOWN if path.startswith(("scripts", "motorlite")))]
    for page in pages:
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        assert address not in text, page
        assert address.replace("github.com", "raw.githubusercontent.com") not in text, page
    assert {"Repository", "Documentation", "Changelog", "Issues", "Security"} <= PROJECT["urls"].keys()
    for url in PROJECT["urls"].values():
        assert url.startswith(URL)
        if path := in_repository(url):
            assert problem("README.md", path) == ""


def test_the_package_index_shows_absolute_links() -> None:
    text = on_the_index(README)
    assert INDEX_TEXT["fragments"] == [{"path": "README.md"}]
    assert "readme" in PROJECT["dynamic"]
    shown, written = targets(text), targets(README)
    assert len(shown) == len(written) > 30
    for target, before in zip(shown, written, strict=True):
        if is_external(before):
            assert target == before
        elif before.startswith("#"):
            assert target == URL + before
        else:
            assert in_repository(target) == before
            assert target.startswith(RAW) is before.endswith(".svg"), target


def test_the_package_index_shows_how_to_install_from_it() -> None:
    """What has no release says so; what is on an index has one."""
    text = on_the_index(README)
    assert "not released" in README
    assert "not released" not in text
    assert "\n```console\npip install motorlite\n```\n" in text
    assert "pip install 'motorlite[testing]'" in text
    assert "pip install '.[" not in text.partition("## See it and test it")[0]


def test_a_report_of_a_vulnerability_needs_no_address() -> None:
    text = words((REPOSITORY / "SECURITY.md").read_text(encoding="utf-8"))
    assert "://" not in text
    assert "[project.urls]" in text
    assert "say only that you have found a vulnerability" in text


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_what_cannot_be_installed_by_name_says_how_else(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert "not released" in text.partition("```")[0]
    assert blocks(page)[0].text == "pip install .\n"
    assert "pip install '.[testing]'" in text


@pytest.mark.parametrize("path", SHOWN)
def test_extras_are_quoted(path: str) -> None:
    """Of a bracket without quotes zsh makes a pattern, and finds no file."""
    found = UNQUOTED.findall(words((REPOSITORY / path).read_text(encoding="utf-8")))
    assert found == []


def test_who_reads_of_the_port_command_reads_of_its_extra() -> None:
    for page in documents():
        text = words((REPOSITORY / page).read_text(encoding="utf-8"))
        if "python -m motorlite.port" in text and page not in ("CHANGELOG.md", "docs/architecture.md"):
            assert "[port]" in text or "extra `port`" in text, page


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 200
    assert "fast at point reads" in words(README).lower()


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
    assert sorted(listed) == sorted([*pages, *OUTSIDE])


# --- the guide to the code, and the records of decisions ---

DECISIONS: Final = [page for page in documents() if page.startswith("docs/decisions/")]
FILE_NAMED: Final = re.compile(r"`((?:\w+/)*\w+\.(?:py|toml|md))`")


def unknown_files(text: str) -> list[str]:
    """Files that a page names, from the root or from the package, and that do not exist."""
    roots = (REPOSITORY, REPOSITORY / "motorlite")
    return [name for name in FILE_NAMED.findall(text) if not any((root / name).exists() for root in roots)]


@pytest.mark.parametrize("page", ["docs/architecture.md", *DECISIONS])
def test_pages_for_contributors_name_files_that_exist(page: str) -> None:
    assert unknown_files((REPOSITORY / page).read_text(encoding="utf-8")) == []


def test_files_that_do_not_exist_are_noticed() -> None:
    text = "`tests/test_documents.py`, `_base/values.py`, `values.py`, `_base/lost.py`, `_base`"
    assert unknown_files(text) == ["values.py", "_base/lost.py"]


def test_the_guide_has_every_room() -> None:
    table = section((REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8"), "Rooms")
    listed = {
        name
        for line in table.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`(_\w+)`", line.split("|")[1])
    }
    rooms = {path.parent.name for path in (REPOSITORY / "motorlite").glob("_*/__init__.py")}
    assert listed == rooms


def test_the_guide_lists_every_record() -> None:
    guide = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = [f"docs/{target}" for target in targets(guide.partition("## Decisions")[2])]
    assert listed == DECISIONS


@pytest.mark.parametrize("page", DECISIONS)
def test_a_record_says_why_and_when(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    number = Path(page).name[:4]
    assert re.match(rf"# {number} .+\n\nDate: \d{{4}}-\d\d-\d\d", text)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert (headings[0], headings[-1]) == ("## Context", "## Consequences")
