"""A Kerberos realm on loopback (Debian's krb5-kdc), and the server's side of GSSAPI with the same library."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

REALM: Final = "MOTORLITE.TEST"
# The host that the service ticket is for. Nothing resolves it.
HOST: Final = "db.motorlite.test"
USER: Final = f"ada@{REALM}"
PASSWORD: Final = "pencil"
PATIENCE: Final = 20.0

_TOOLS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "klist")
_PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
# What a machine lacks for these tests; None: nothing.
LACKING: Final = next(
    (
        f"needs {tool} (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
        for tool in _TOOLS
        if not shutil.which(tool, path=_PATH)
    ),
    None if find_spec("gssapi") else "needs the package gssapi (pip install 'motorlite[gssapi]')",
)

_CONFIGURATION: Final = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
        kdc_listen = 127.0.0.1:{port}
        kdc_tcp_listen = 127.0.0.1:{port}
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
        max_life = 1h
    }}
[domain_realm]
    .motorlite.test = {realm}
    localhost = {realm}
"""


def write_configuration(folder: Path, port: int) -> Path:
    """Write a configuration of libkrb5 and of the KDC at this port of loopback."""
    path = folder / "krb5.conf"
    path.write_text(_CONFIGURATION.format(realm=REALM, port=port, folder=folder), encoding="utf-8")
    return path


class Realm:
    """A KDC with the user `USER` and the service ``mongodb/HOST``; its environment is that of the client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keytab = folder / "keytab"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        configuration = write_configuration(folder, self.port)
        self.environment: Final = {
            "KRB5_CONFIG": str(configuration),
            "KRB5_KDC_PROFILE": str(configuration),
            "KRB5CCNAME": f"FILE:{folder / 'tickets'}",
            "KRB5_CLIENT_KTNAME": f"FILE:{folder / 'none'}",
            # Tests connect more often than the clock's ticks tell their messages apart.
            "KRB5RCACHENAME": "none:",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *command: str, text: str = "") -> None:
        """Run one of the commands of Kerberos."""
        program = shutil.which(command[0], path=_PATH)
        assert program is not None
        done = subprocess.run(
            [program, *command[1:]],
            input=text,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def add_service(self, principal: str) -> None:
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {self.keytab} {principal}")

    def kinit(self, *options: str) -> None:
        """Get a ticket for the user, as a person does."""
        self.run("kinit", *options, USER, text=PASSWORD + "\n")

    def kdestroy(self) -> None:
        (self.folder / "tickets").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        self.run("kadmin.local", "-q", f"addprinc -pw {PASSWORD} {USER}")
        self.add_service(f"mongodb/{HOST}@{REALM}")
        program = shutil.which("krb5kdc", path=_PATH)
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-n", "-P", str(self.folder / "pid")],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
            except OSError:
                assert self._process.poll() is None, "the KDC has ended"
                assert time.monotonic() < end, "the KDC does not listen"
                time.sleep(0.02)
            else:
                return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE)


class Acceptor:
    """The server's side of GSSAPI (RFC 4752), for commands of a scripted server; `layers` is what it offers."""

    def __init__(self, realm: Realm, *, layers: int = 1) -> None:
        self.keytab = realm.keytab
        self.layers = layers
        # Who has authenticated: the principal of the ticket, and the user that the client then named.
        self.users: list[tuple[str, str]] = []
        self.commands: list[dict[str, Any]] = []
        # What the last ticket was for.
        self.service = ""
        self._context: Any = None
        self._has_offered = False

    def start(self, command: dict[str, Any]) -> dict[str, Any]:
        gssapi = import_module("gssapi")
        assert (command["mechanism"], command["$db"], command["autoAuthorize"]) == ("GSSAPI", "$external", 1)
        credentials = gssapi.Credentials(usage="accept", store={"keytab": str(self.keytab)})
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._has_offered = False
        return self._answer(command)

    def proceed(self, command: dict[str, Any]) -> dict[str, Any]:
        assert (command["conversationId"], command["$db"]) == (1, "$external")
        return self._answer(command)

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        self.commands.append(command)
        payload: bytes = command["payload"]
        answer = {"conversationId": 1, "done": False, "ok": 1}
        if not self._context.complete:
            return {**answer, "payload": self._context.step(payload) or b""}
        if not self._has_offered:
            assert payload == b""
            self._has_offered = True
            # At most 64 KiB in a message, if it has a layer.
            return {**answer, "payload": self._context.wrap(bytes((self.layers, 1, 0, 0)), False).message}
        chosen = self._context.unwrap(payload).message
        assert chosen[:4] == b"\1\0\0\0", "no security layer, and so no maximum size"
        self.service = str(self._context.target_name)
        self.users.append((str(self._context.initiator_name), chosen[4:].decode()))
        return {**answer, "payload": b"", "done": True}
