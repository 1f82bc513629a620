"""What servers answer while a connection is established: hello, and the conversations of authentication."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.objectid import ObjectId

from motorlite._connection.auth import aws, mechanisms, oidc
from motorlite._connection.auth.conversation import (
    Compute,
    NeedAwsCredentials,
    NeedDate,
    NeedToken,
    RunCommand,
    redacted,
)
from motorlite._connection.auth.scram import DIGESTS, KeyCache, ScramUser, converse, start_command
from motorlite._connection.handshake import parse_hello
from motorlite._options.credentials import Credentials
from motorlite._topology.server_description import MAX_MEMBERS, ServerDescription
from motorlite._topology.topology_description import TopologyChange, TopologyDescription
from motorlite._wire.documents import decode_reply
from motorlite.auth_oidc import OIDCCallbackResult
from motorlite.errors import AutoReconnect, ConfigurationError, NotPrimaryError, OperationFailure, ProtocolError
from motorlite.topology_description import ServerType, TopologyType
from tests.fuzz.mutation import documents
from tests.fuzz.target import Form, Limit, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from motorlite._base.values import Document
    from motorlite._connection.auth.conversation import Conversation

# --- hello ---

_ADDRESSES: Final = (("a", 27017), ("b", 27017), ("c", 27017))
_TOPOLOGIES: Final = (
    TopologyDescription.initial(_ADDRESSES[:1]),
    TopologyDescription.initial(_ADDRESSES),
    TopologyDescription.initial(_ADDRESSES, replica_set="rs"),
    TopologyDescription.initial(_ADDRESSES[:1], direct_connection=True, replica_set="rs"),
)


def hello(data: bytes) -> None:
    """Replies to hello, of one server after the other; the first byte chooses the client's settings.

    A handshake raises OperationFailure, NotPrimaryError, ConfigurationError or ProtocolError, and a monitor the last.
    """
    if not data:
        return
    topology = _TOPOLOGIES[data[0] & 3]
    for number, body in enumerate(documents(data[1:])):
        members = list(topology.server_descriptions())
        if not members:
            return
        address = members[number % len(members)]
        try:
            reply = decode_reply(body)
        except (ProtocolError, bson.errors.InvalidBSON):
            return
        try:
            handshake = parse_hello(address, reply, bool(data[0] & 4), check_versions=bool(data[0] & 8))
        except (OperationFailure, NotPrimaryError, ConfigurationError, ProtocolError) as error:
            assert str(error)
        else:
            assert 1 <= handshake.facts.max_message_size < 2**31
            assert repr(handshake)
        try:
            server = ServerDescription.from_hello(
                address, reply, round_trip_time=0.1, min_round_trip_time=0.1, now=number
            )
        except ProtocolError:
            continue
        assert server == server
        topology = _applied(topology, server)


def _applied(topology: TopologyDescription, server: ServerDescription) -> TopologyDescription:
    new = topology.apply(server)
    change = TopologyChange.between(topology, new, server.address)
    servers = new.server_descriptions()
    assert len(servers) <= max(MAX_MEMBERS, len(topology.server_descriptions()))
    assert not set(change.added) & set(change.removed)
    primaries = sum(each.server_type is ServerType.RSPrimary for each in servers.values())
    if new.topology_type is TopologyType.ReplicaSetWithPrimary:
        assert primaries == 1
    elif new.topology_type is not TopologyType.Single:
        assert not primaries
    if topology.topology_type is TopologyType.Single:
        assert servers.keys() == topology.server_descriptions().keys()
    assert repr(new)
    return new


_MEMBER: Final[Document] = {
    "ok": 1.0,
    "helloOk": True,
    "setName": "rs",
    "setVersion": 1,
    "hosts": ["a:27017", "b:27017"],
    "passives": ["c:27017"],
    "arbiters": [],
    "primary": "a:27017",
    "tags": {"dc": "east"},
    "topologyVersion": {"processId": ObjectId(bytes(12)), "counter": 1},
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "connectionId": 5,
}
_PRIMARY: Final = {**_MEMBER, "isWritablePrimary": True, "me": "a:27017", "electionId": ObjectId(bytes(12))}
_SECONDARY: Final = {**_MEMBER, "isWritablePrimary": False, "secondary": True, "me": "b:27017"}
_MONGOS: Final = {"ok": 1, "msg": "isdbgrid", "maxWireVersion": 21, "serviceId": ObjectId(bytes(12))}
_FAILED: Final = {"ok": 0, "errmsg": "not primary", "code": 10107, "topologyVersion": _MEMBER["topologyVersion"]}
_HELLOS: Final = (
    [_PRIMARY, _SECONDARY, {**_MEMBER, "arbiterOnly": True, "me": "c:27017"}],
    [_PRIMARY, {**_PRIMARY, "setVersion": 2, "me": "b:27017", "hosts": ["b:27017", "d:27017"]}],
    [{"ok": 1, "isWritablePrimary": True, "maxWireVersion": 21, "compression": ["zstd"], "saslSupportedMechs": ["x"]}],
    [_MONGOS, _MONGOS],
    [_FAILED, {**_MEMBER, "hidden": True}, {"ok": 1, "isreplicaset": True, "maxWireVersion": 21}],
    [{**_PRIMARY, "maxWireVersion": 3, "lastWrite": {"lastWriteDate": bson.DatetimeMS(0)}}],
    # As many members as are followed.
    [{"ok": 1, "setName": "rs", "secondary": True, "hosts": [f"{number}:1" for number in range(100)]}],
    # Once it was taken for a date.
    [{**_PRIMARY, "lastWrite": {"lastWriteDate": bson.Int64(1)}}],
)


def _joined(found: list[Document]) -> bytes:
    return b"".join(map(bson.encode, found))


_HELLO_SEEDS: Final = [
    bytes([number % 4 + 4 * (number == 3) + 8 * (number % 2)]) + _joined(found) for number, found in enumerate(_HELLOS)
]

# --- authentication ---

_NONCE: Final = bytes(range(32))
_PASSWORD: Final = "the password of the user"
_TOKEN: Final = "a token that nothing may show again"
_NEW_TOKEN: Final = "the token that the callback returns"
_SECRETS: Final = (_PASSWORD, _TOKEN, _NEW_TOKEN)
# What a server's text stands for when it repeats a secret.
_REPEATED: Final = "@"


class _Client:
    """Answers what conversations ask for; servers' replies are documents of the input."""

    def __init__(self, data: bytes, cache: oidc.TokenCache | None = None) -> None:
        self.replies: Iterator[bytes] = iter(documents(data))
        self.sent: list[Document] = []
        self._cache = cache or oidc.TokenCache()
        # How many tokens were asked for.
        self._tokens = 0

    def run(self, conversation: Conversation, server: Callable[[Document], Document] = dict) -> bool:
        """Run a conversation; `server` may change each reply. Whether the client accepted the server.

        Errors are those that a connection raises; each shows no secret.
        """
        answer: Any = None
        try:
            while True:
                answer = self._answer(conversation.send(answer), server)
        except StopIteration:
            return True
        except (OperationFailure, NotPrimaryError, ConfigurationError, ProtocolError, AutoReconnect) as error:
            shown = f"{error} {getattr(error, 'details', None)}"
            assert not any(secret in shown for secret in _SECRETS), "a secret is shown"
            return False

    @property
    def _known(self) -> list[str]:
        """The secrets that the server knows, because the client has sent them."""
        payloads = [command.get("payload", b"") for command in self.sent]
        return [secret for secret in _SECRETS if any(secret.encode() in payload for payload in payloads)]

    def _answer(self, request: object, server: Callable[[Document], Document]) -> Any:
        if isinstance(request, RunCommand):
            self.sent.append(request.document)
            return server(_repeating(self._reply(), self._known))
        if isinstance(request, Compute):
            # The real function takes milliseconds.
            assert callable(request.function)
            request.keep(_KEYS[request.key[0]])  # type: ignore[index]  # the mechanism comes first
            return _KEYS[request.key[0]]  # type: ignore[index]
        if isinstance(request, NeedToken):
            cached, self._tokens = self._cache.access_token, self._tokens + 1
            new = f"{_NEW_TOKEN} {self._tokens}"
            if cached is None:
                self._cache.store(OIDCCallbackResult(new, None, "refresh"), request.idp_info)
            return cached or new, cached is not None
        if isinstance(request, NeedDate):
            return "20260101T000000Z"
        assert isinstance(request, NeedAwsCredentials)
        return aws.AwsCredentials("key", _PASSWORD, _TOKEN)

    def _reply(self) -> Document:
        body = next(self.replies, None)
        if body is None:
            raise AutoReconnect("the connection was closed")
        try:
            return decode_reply(body)
        except bson.errors.InvalidBSON as error:  # as `Connection.command` does
            raise ProtocolError("a value cannot be used") from error


def _repeating(value: Any, secrets: Sequence[str]) -> Any:
    """Let a server repeat secrets in its texts."""
    if isinstance(value, str):
        return value.replace(_REPEATED, " ".join(secrets))
    if isinstance(value, dict):
        return {_repeating(key, secrets): _repeating(inner, secrets) for key, inner in value.items()}
    return [_repeating(inner, secrets) for inner in value] if isinstance(value, list) else value


def sasl(data: bytes) -> None:
    """Replies to the messages of PLAIN and X.509, and to reauthentication, in which servers may repeat secrets.

    Raises nothing but the errors of `_Client.run`, without any secret.
    """
    if not data:
        return
    mechanism = (mechanisms.PLAIN, mechanisms.MONGODB_X509, "SCRAM-SHA-256")[data[0] % 3]
    credentials = Credentials("user", None if data[0] % 3 == 1 else _PASSWORD, "admin", mechanism)
    started = mechanisms.start(credentials, _ADDRESSES[0], _NONCE, KeyCache(100_000), oidc.TokenCache())
    client = _Client(data[1:])
    is_accepted = client.run(started.again(_NONCE))
    assert not (is_accepted and mechanism == "SCRAM-SHA-256"), "the server does not know the keys"
    if is_accepted and mechanism == mechanisms.PLAIN:
        assert decode_reply(documents(data[1:])[0])["done"] is True
    for body in documents(data[1:]):
        try:
            reply = _repeating(decode_reply(body), _SECRETS)
        except (ProtocolError, bson.errors.InvalidBSON):
            continue
        shown = repr(redacted(reply, {"payload": b"0" * 20 + _PASSWORD.encode()}, _SECRETS))
        assert not any(secret in shown for secret in _SECRETS)


# The client's key and the server's.
_KEYS: Final = {"SCRAM-SHA-1": (b"C" * 20, b"S" * 20), "SCRAM-SHA-256": (b"C" * 32, b"S" * 32)}
_SIGNATURE: Final = b"v=@"


def scram(data: bytes) -> None:
    """Replies to SCRAM; the first byte chooses the mechanism, and whether hello has carried the first message.

    A server is accepted only if it has signed what was said with the user's key. A final payload that is ``v=@`` stands
    for that signature.
    """
    if not data:
        return
    mechanism = ("SCRAM-SHA-1", "SCRAM-SHA-256")[data[0] & 1]
    user = ScramUser("us=er,", _PASSWORD, "admin", _NONCE)
    client, firsts, signed = _Client(data[1:]), list[bytes](), list[bool]()

    def server(reply: Document) -> Document:
        payload = reply.get("payload")
        if not isinstance(payload, bytes):
            return reply
        if not firsts:
            firsts.append(payload.replace(b"@", user.nonce))
            return {**reply, "payload": firsts[0]}
        final: bytes = client.sent[-1]["payload"]
        if final:
            said = b",".join((user.first_bare(), firsts[0], final.rpartition(b",p=")[0]))
            signature = hmac.new(_KEYS[mechanism][1], said, DIGESTS[mechanism]).digest()
            if payload == _SIGNATURE:
                payload = b"v=" + b64encode(signature)
            first_field = payload.split(b",")[0]
            signed.append(first_field[:2] == b"v=" and _decoded(first_field[2:]) == signature)
        return {**reply, "payload": payload}

    speculative: Document | None = None
    if data[0] & 2:
        client.sent.append(start_command(mechanism, user))
        try:
            speculative = server(client._reply())
        except (AutoReconnect, ProtocolError):
            return
    if client.run(converse(mechanism, user, KeyCache(100_000), speculative), server):
        assert signed == [True]
        nonce = firsts[0].split(b",")[0][2:]
        assert nonce.startswith(user.nonce)
        assert len(nonce) > len(user.nonce)


def _decoded(text: bytes) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _sasl_reply(payload: bytes, done: bool = False, **more: Any) -> Document:
    return {"conversationId": 1, "done": done, "payload": payload, "ok": 1.0, **more}


_REFUSED: Final = {"ok": 0, "code": 18, "errmsg": f"bad {_REPEATED}", "errInfo": {"a": ["x", _REPEATED]}}
_SCRAM_FIRST: Final = _sasl_reply(b"r=@server,s=c2FsdA==,i=4096")
_SCRAM_SEEDS: Final = [
    bytes([number]) + _joined(found)
    for number, found in enumerate(
        (
            [_SCRAM_FIRST, _sasl_reply(_SIGNATURE, True)],
            [_SCRAM_FIRST, _sasl_reply(_SIGNATURE), _sasl_reply(b"", True)],
            [_SCRAM_FIRST, _sasl_reply(b"e=other-error", True)],
            [_SCRAM_FIRST, _sasl_reply(b"v=YWJj", True)],
            [_REFUSED],
        )
    )
]
_SASL_SEEDS: Final = [
    bytes([number]) + _joined([reply])
    for number in range(3)
    for reply in (_sasl_reply(b"", True), _sasl_reply(b""), _REFUSED)
]


def aws_replies(data: bytes) -> None:
    """Replies to MONGODB-AWS, whose nonce begins with the client's where the payload has 32 times N.

    A signature is sent only to a host whose name cannot add a header, for the client's own nonce.
    """
    client, payloads = _Client(data), list[bytes]()

    def server(reply: Document) -> Document:
        payload = reply.get("payload")
        if not isinstance(payload, bytes):
            return reply
        payloads.append(payload.replace(b"N" * 32, _NONCE))
        return {**reply, "payload": payloads[-1]}

    is_accepted = client.run(aws.converse(_NONCE), server)
    assert not is_accepted or len(client.sent) == 2
    if len(client.sent) == 2:
        sent = bson.decode(client.sent[1]["payload"])
        nonce = bson.decode(payloads[0])["s"]
        assert (nonce[:32], len(nonce)) == (_NONCE, 64)
        assert sent["t"] == _TOKEN
        assert sent["a"].isprintable()
        assert sent["a"].count("SignedHeaders=") == 1


def _aws_first(**fields: Any) -> Document:
    return _sasl_reply(bson.encode({"s": b"N" * 32 + b"s" * 32, "h": "sts.amazonaws.com", **fields}))


_AWS_SEEDS: Final = [
    _joined([first, last])
    for first in (
        _aws_first(),
        _aws_first(h="sts.us-west-2.amazonaws.com"),
        _aws_first(h="sts.a\nb.com"),
        _aws_first(s=b"x"),
    )
    for last in (_sasl_reply(b"", True), _REFUSED)
]


def oidc_replies(data: bytes) -> None:
    """Replies to MONGODB-OIDC; the first byte chooses the flow, and what is cached. No message is sent in vain.

    A server gets a token only as often as it answers, and the last token is forgotten only if it was refused.
    """
    if not data:
        return
    cache, held = oidc.TokenCache(), oidc.Held()
    if data[0] & 1:
        cache.store(OIDCCallbackResult(_TOKEN, None, "refresh" if data[0] & 2 else None), None)
    elif data[0] & 2:
        cache.refresh_token = "refresh"
    client = _Client(data[1:], cache)
    replies = len(documents(data[1:]))
    speculative: Document | None = None
    if data[0] & 8:
        try:
            speculative = client._reply()
        except (AutoReconnect, ProtocolError):
            return
    talk = oidc.converse(cache, held, "user", is_human=bool(data[0] & 4), speculative_reply=speculative)
    is_accepted = client.run(talk)
    assert len(client.sent) <= min(replies + 1, 5)
    tokens = [bson.decode(command["payload"]).get("jwt") for command in client.sent]
    sent = [token for token in tokens if token is not None]
    assert len(sent) == len(set(sent)), "a token that was refused is sent again"
    if is_accepted and client.sent:
        assert held.access_token == sent[-1]


_IDP: Final = {"issuer": "https://issuer", "clientId": "id", "requestScopes": ["a", "b"]}
_OIDC_SEEDS: Final = [
    bytes([number]) + _joined(found)
    for number in range(16)
    for found in (
        [_sasl_reply(b"", True)],
        [_sasl_reply(bson.encode(_IDP)), _sasl_reply(b"", True)],
        [_REFUSED, _REFUSED, _sasl_reply(bson.encode(_IDP)), _sasl_reply(b"", True)],
    )
]

_documents: Final = partial(Target, form=Form.DOCUMENTS)
# BSON of a few bytes is a hundred of Python.
_MEMORY: Final = Limit(256 * 1024, 400)

TARGETS: Final = (
    _documents(
        "hello",
        hello,
        _HELLO_SEEDS,
        ("_connection.handshake", "_topology.server_description", "_topology.topology_description"),
        weight=100,
        prefix=1,
        steps=Limit(20_000, 100),
        memory=_MEMORY,
    ),
    # A text is searched for secrets window by window.
    _documents(
        "sasl",
        sasl,
        _SASL_SEEDS,
        ("_connection.auth.conversation", "_connection.auth.mechanisms"),
        weight=120,
        prefix=1,
        steps=Limit(20_000, 1_000),
        memory=_MEMORY,
    ),
    _documents(
        "scram",
        scram,
        _SCRAM_SEEDS,
        ("_connection.auth.scram", "_connection.auth.conversation"),
        weight=120,
        prefix=1,
        memory=_MEMORY,
    ),
    _documents(
        "aws",
        aws_replies,
        _AWS_SEEDS,
        ("_connection.auth.aws", "_connection.auth.conversation"),
        weight=200,
        memory=_MEMORY,
    ),
    _documents(
        "oidc",
        oidc_replies,
        _OIDC_SEEDS,
        ("_connection.auth.oidc", "_connection.auth.conversation"),
        weight=150,
        prefix=1,
        memory=_MEMORY,
    ),
)
