"""The fixtures that open clients for pytest-asyncio: one for each scope of its event loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest_asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncMongoClient
    from pytest_motorlite import Target


def _opening(loop_scope: Literal["session", "package", "module", "class", "function"]) -> Any:
    """A fixture that opens and closes the client in the event loop of this scope."""

    @pytest_asyncio.fixture(loop_scope=loop_scope, name=f"_motorlite_client_in_{loop_scope}_loop")
    async def opening(_motorlite_target: Target) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
        from pytest_motorlite._clients import opened

        async with opened(_motorlite_target.server.uri, _motorlite_target.options) as client:
            yield client

    return opening


in_function_loop = _opening("function")
in_class_loop = _opening("class")
in_module_loop = _opening("module")
in_package_loop = _opening("package")
in_session_loop = _opening("session")
