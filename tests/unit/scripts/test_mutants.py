"""Which changes are made, which are not, and that they are made to the tree."""

from __future__ import annotations

import ast
import textwrap

import pytest

from scripts.mutants import Mutant, mutants


def made_of(source: str) -> list[Mutant]:
    return mutants(textwrap.dedent(source), "a.py")[1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("x = a is b", ["a is b -> a is not b"]),
        ("x = a < b == c", ["a < b == c -> a <= b == c", "a < b == c -> a >= b == c", "a < b == c -> a < b != c"]),
        ("x = a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
        ("x = not a", ["not a -> a"]),
        ("x = a + b", ["a + b -> a - b"]),
        ("x = a @ b", []),
        ("x = 2", ["2 -> 3", "2 -> 1"]),
        ("x = 0.5", ["0.5 -> 1.5", "0.5 -> -0.5"]),
        ("x = True", ["True -> False"]),
        ("x = 'a'", ["'a' -> 'XXaXX'"]),
        ("x = None", ["None -> ''"]),
        ("x = a is None", ["a is None -> a is not None"]),
        ("x = min(a, b)", ["min(a, b) -> max(a, b)"]),
        ("x = a.popleft()", ["a.popleft() -> a.pop()"]),
        ("x = (a, b)", ["(a, b) -> (b,)", "(a, b) -> (a,)"]),
        ("x = {a}", ["{a} -> set()"]),
        ("x = {a: b}", ["{a: b} -> {}"]),
        ("x, y = a, b", []),
        ("x.y = a", ["x.y = a -> pass"]),
        ("del a[b]", ["del a[b] -> pass"]),
        ("a(b)", ["a(b) -> pass"]),
        ("a += b", ["a += b -> pass", "a += b -> a -= b", "a += b -> a = b"]),
        ("raise a", ["raise a -> pass"]),
        ("while a:\n    break", ["a -> not a", "break -> continue"]),
        ("for a in b:\n    continue", ["continue -> break", "continue -> pass"]),
        ("x = a if b else c", ["b -> not b"]),
        ("x = [a for a in b if c]", ["c -> not c"]),
        ("def f(a=1):\n    return a", ["1 -> 2", "1 -> 0", "return a -> return None"]),
        ("def f():\n    return (a, b)", ["return (a, b) -> return None"]),
        ("class C:\n    def __init__(self, a):\n        self.a = a", ["self.a = a -> self.a = None"]),
    ],
)
def test_what_is_changed(source: str, expected: list[str]) -> None:
    assert [mutant.change for mutant in made_of(source)] == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A text."""',
        "x: Literal['a']",
        "import a",
        "if TYPE_CHECKING:\n    x = 1",
        "__slots__ = ('a', 'b')",
        "__all__ = ['a']",
        "assert x == 1, 'text'",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "def __repr__(self): return 1",
        "X: TypeAlias = tuple[int, str]",
        "T = TypeVar('T')",
        "class Kind(enum.Enum):\n    A = 'a'",
        "@decorator(1)\nclass C(Base[1], key=2): ...",
        "x = f'{a + 1}'",
        "x = ProtocolError('text')",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert made_of(source) == []


def test_a_mutant_is_put_in() -> None:
    source = "if a and b:\n    c(1)"
    for number in range(len(made_of(source))):
        tree, found = mutants(source, "a.py")
        found[number].apply()
        assert ast.unparse(tree) != source
        compile(tree, "a.py", "exec")


def test_where_a_mutant_is() -> None:
    source = """
        class C:
            a = 1

            def f(self, b=2):
                if (self.a or
                        b):
                    return [x for x in b if x]
                def g(): g()
    """
    found = {mutant.change: mutant for mutant in made_of(source)}
    assert found["1 -> 2"].function == ""
    assert found["2 -> 3"].function == ""
    assert found["x -> not x"].function == found["g() -> pass"].function == "C.f"
    condition = found["self.a or b -> b"]
    assert (condition.line, condition.text) == (6, "if (self.a or")
    assert condition.lines == {6, 7}


def test_equal_changes_are_told_apart() -> None:
    found = made_of("def f():\n    return a\n    return a\ndef g():\n    return a")
    assert [(mutant.function, mutant.nth) for mutant in found] == [("f", 1), ("f", 2), ("g", 1)]
