"""An operation that is one call of a method of the driver."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.spec.unified.arguments import renamed, selected
from tests.spec.unified.outcomes import BadTest

Arguments: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Any, Arguments], Awaitable[Any]]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Method:
    """Calls a method with keyword arguments; a cursor is read to its end.

    Attributes:
        name: The method.
        names: The arguments that it takes (`arguments.renamed`).
        result: Makes the test's form of what the method returns.
        converters: For arguments that the driver has another form for.
        always: Arguments of the method that are not the test's to give.
        required: Arguments that a test must give, although the method does not need them.
    """

    name: str
    names: str = ""
    result: Callable[[Any], Any] = _same
    converters: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def call(self, target: Any, arguments: Arguments) -> Any:
        """Call the method: an awaitable, or a cursor.

        Raises:
            BadTest: an argument is not known, or missing.
        """
        if missing := [name for name in self.required if name not in arguments]:
            raise BadTest(f"{self.name} needs the argument {', '.join(missing)}")
        given = {
            name: self.converters[name](value) if name in self.converters else value
            for name, value in arguments.items()
        }
        keywords = selected(given, renamed(f"session {self.names}"), self.name)
        return getattr(target, self.name)(**keywords, **self.always)

    async def __call__(self, target: Any, arguments: Arguments) -> Any:
        called = self.call(target, arguments)
        if isinstance(called, AsyncIterable):
            async with called as cursor:  # type: ignore[attr-defined]  # all cursors are context managers
                return [document async for document in cursor]
        return self.result(await called)
