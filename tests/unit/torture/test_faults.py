"""How faults of different lanes meet on the same proxies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.torture.faults import Injector
from tests.torture.plan import PRIMARY, Fault

if TYPE_CHECKING:
    import pytest

ADDRESS = ("a", 1)
COMMITS = Fault(1, 9, "replies", "lose replies", {"commands": ("commitTransaction",), "times": 4})
DELAY = Fault(2, 3, "network", "delay", {"member": PRIMARY, "harms": "members", "seconds": 0.1})


class Proxy:
    """Records its calls."""

    def __init__(self) -> None:
        self.harms = "all"
        self.delayed = 0.0
        self.losing: tuple[str, ...] = ()
        self.counts = SimpleNamespace(lost_replies=3)

    def delay(self, seconds: float) -> None:
        self.delayed = seconds

    def lose_replies(self, *commands: str, times: int | None = None) -> None:
        self.losing = commands


class Server:
    """One member, and its proxy."""

    addresses = (ADDRESS,) * 3

    def __init__(self) -> None:
        self.proxies = {ADDRESS: Proxy()}

    def wait_for_primary(self) -> Any:
        return ADDRESS

    def command(self, *_: Any, **__: Any) -> Any:
        return {"config": {}, "ismaster": False}

    def heal(self) -> None:
        proxy = self.proxies[ADDRESS]
        proxy.delayed, proxy.losing = 0.0, ()


def test_replies_are_lost_until_their_own_fault_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = Server()
    injector = Injector(server, server)
    monkeypatch.setattr(injector, "_roles", lambda: {PRIMARY: ADDRESS})
    proxy = server.proxies[ADDRESS]
    injector.begin(COMMITS)
    injector.begin(DELAY)
    assert (proxy.harms, proxy.delayed, proxy.losing) == ("members", 0.1, ("commitTransaction",))
    injector.end(DELAY)
    assert (proxy.harms, proxy.delayed, proxy.losing) == ("all", 0.0, ("commitTransaction",))
    injector.end(COMMITS)
    assert proxy.losing == ()
    injector.begin(DELAY)
    injector.end(DELAY)
    assert proxy.losing == ()
    assert injector.injected == {"lose replies": 1, "delay": 2, "replies lost": 3}
