"""The decision after a failed attempt, without a clock, a server or an event loop."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._operations.contract import Kind
from motorlite._retry.decision import Again, Ask, Raise, Retry, RetrySettings
from motorlite.errors import NetworkTimeout, PyMongoError, ServerSelectionTimeoutError
from motorlite.retry import OverloadRetry, RetryBudget, RetryRefusal, RetryRule
from tests.support.operations import failed, network_error, other, overload, read, server_error, unsent, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._operations.contract import Operation

NOW = 100.0
LATER = OverloadRetry.revision_2026_07()


class Case:
    """One operation's retries with settings of its own."""

    def __init__(
        self,
        operation: Operation[Any] | None = None,
        *,
        policy: OverloadRetry | None = None,
        tokens: float | None = 10,
        capacity: float = 1000,
        jitter: float = 1.0,
        reads: bool = True,
        writes: bool = True,
    ) -> None:
        self.bucket = None if tokens is None else RetryBudget(capacity)
        while self.bucket is not None and tokens is not None and self.bucket.tokens > tokens:
            self.bucket.take()
        self.jitters = 0
        self.jitter = jitter
        settings = RetrySettings(
            policy or OverloadRetry(), self.bucket, self.next_jitter, retry_reads=reads, retry_writes=writes
        )
        self.settings, self.operation = settings, operation or read()
        self.retry = Retry(settings, self.operation, NO_DEADLINE)

    def next_jitter(self) -> float:
        self.jitters += 1
        return self.jitter

    @property
    def tokens(self) -> float:
        assert self.bucket is not None
        return self.bucket.tokens

    def after(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Again | Raise:
        ordinary = arguments.pop("ordinary", True)
        self.retry._deadline = deadline  # one deadline for each operation, but these tests try several
        decision = self.retry.after(failed(error, is_ordinary=ordinary), NOW, **arguments)
        assert not isinstance(decision, Ask)
        if isinstance(decision, Raise):
            # As the executor does.
            self.retry.newest.annotate()
            self.retry.describe(decision.failure.annotate())
        return decision

    def again(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Again:
        decision = self.after(error, deadline, **arguments)
        assert isinstance(decision, Again), decision.refusal
        return decision

    def refused(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> RetryRefusal | None:
        decision = self.after(error, deadline, **arguments)
        assert isinstance(decision, Raise)
        return decision.refusal


def retryable() -> PyMongoError:
    return server_error(2, "RetryableError")


def host_unreachable() -> PyMongoError:
    return server_error(6, "RetryableWriteError")


def both() -> PyMongoError:
    """The label permits a retry, and so does the ordinary rule."""
    return server_error(6, "RetryableError", "RetryableWriteError")


# --- the reason of a refusal ---


@pytest.mark.parametrize(
    ("refusal", "settings", "arguments", "retries"),
    [
        (RetryRefusal.DISABLED, {"reads": False}, {}, 0),
        (RetryRefusal.ATTEMPTS, {"policy": OverloadRetry(max_retries=0)}, {}, 1),
        (RetryRefusal.DEADLINE, {}, {"deadline": Deadline(NOW)}, 0),
        (RetryRefusal.CLOSED, {}, {"is_closing": True}, 0),
    ],
)
def test_the_preferred_rule_is_the_one_that_was_refused(
    refusal: RetryRefusal, settings: dict[str, Any], arguments: dict[str, Any], retries: int
) -> None:
    case = Case(**settings)
    for _ in range(retries):
        case.again(both())
    decision = case.after(both(), **arguments)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.OVERLOAD_POLICY, refusal)


def test_only_writes_get_the_label_of_writes() -> None:
    for operation, expected in ((read(), False), (write(), True)):
        case = Case(operation)
        case.after(network_error())
        assert case.retry.newest.annotate().has_error_label("RetryableWriteError") is expected


# --- which options apply ---


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "allowed"),
    [
        (Kind.READ, True, False, True),
        (Kind.READ, False, True, False),
        (Kind.WRITE, True, False, False),
        (Kind.WRITE, False, True, True),
        (Kind.COMMAND, True, True, True),
        (Kind.COMMAND, True, False, False),
        (Kind.COMMAND, False, True, False),
        (Kind.COMMAND, False, False, False),
    ],
)
def test_options(kind: Kind, reads: bool, writes: bool, allowed: bool) -> None:
    settings = RetrySettings(OverloadRetry(), None, lambda: 1.0, retry_reads=reads, retry_writes=writes)
    assert settings.allows(kind) is allowed
    operation = {Kind.READ: read, Kind.WRITE: write, Kind.COMMAND: other}[kind]()
    for error in (overload(), retryable()):
        case = Case(operation, reads=reads, writes=writes)
        decision = case.after(error)
        assert isinstance(decision, Again) is allowed
        assert decision.refusal is (None if allowed else RetryRefusal.DISABLED)
        assert case.tokens == (9 if allowed else 10)


@pytest.mark.parametrize("error", [network_error(), server_error(10107), server_error(91)])
def test_a_write_without_retries_says_so(error: PyMongoError) -> None:
    """Neither the driver nor the server labels its errors, so the label is not what tells."""
    case = Case(write(), writes=False)
    decision = case.after(error)
    assert decision.refusal is RetryRefusal.DISABLED
    assert not case.retry.newest.annotate().has_error_label("RetryableWriteError")


# --- delays and tokens ---

# o: overload without RetryableError, m: with a base backoff, w: overload that is only ordinarily retryable.
ERRORS: Final[dict[str, Callable[[], PyMongoError]]] = {
    "O": overload,
    "m": lambda: overload(baseBackoffMS=10),
    "o": lambda: server_error(462, "SystemOverloadedError"),
    "w": lambda: server_error(6, "SystemOverloadedError", "RetryableWriteError"),
    "r": retryable,
    "h": host_unreachable,
    "b": both,
}
RULES: Final = {"p": RetryRule.OVERLOAD_POLICY, "s": RetryRule.SPECIFICATION}
ATTEMPTS, TOKENS, NOT_RETRYABLE = RetryRefusal.ATTEMPTS, RetryRefusal.TOKENS, RetryRefusal.NOT_RETRYABLE
EVERY, ORDINARY, WRITES = (read, write, other), (read, write), (write,)
DELAYS: Final = [0.1, 0.2, 0.4, 0.8, 1.6]
LADDER: Final = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 1.0, 1.0]
LIMITED: Final = Deadline(NOW + 60, inf, 60)
SCOPE: Final = Deadline(inf, NOW + 60)
NOT_SET: Final = (NO_DEADLINE, SCOPE)
ANY: Final = (*NOT_SET, LIMITED)


class Sequence(NamedTuple):
    """Errors, and the rules of the retries that follow, with their delays and the tokens that are left after each."""

    errors: str
    rules: str
    delays: list[float]
    tokens: list[float]
    # Of the last error, if it is not retried; the tokens that are left then come last.
    refusal: RetryRefusal | None = None
    kinds: tuple[Any, ...] = ORDINARY
    deadlines: tuple[Deadline, ...] = ANY
    settings: Mapping[str, Any] = MappingProxyType({})


NONE_OF_POLICY: Final[dict[str, Any]] = {"policy": OverloadRetry(max_retries=0)}
OF_REVISION: Final[dict[str, Any]] = {"policy": LATER}

SEQUENCES: Final = [
    # Five retries together, once overload or a label was among them.
    Sequence("OOOOOO", "ppppp", DELAYS, [9, 8, 7, 6, 5, 5], ATTEMPTS, EVERY),
    Sequence("rrrrrr", "ppppp", [0] * 5, [9, 9, 9, 9, 9, 10], ATTEMPTS, EVERY),
    Sequence("OhOhOh", "pspsp", [0.1, 0, 0.4, 0.001, 1.6], [9, 10, 9, 9, 8, 9], ATTEMPTS),
    Sequence("Ohhhhh", "pssss", [0.1, 0, 0.001, 0.01, 0.05], [9, 10, 9, 8, 7, 8], ATTEMPTS),
    Sequence("Orrrrr", "ppppp", [0.1, 0, 0, 0, 0], [9, 9, 9, 9, 9, 10], ATTEMPTS, EVERY),
    Sequence("rrrrrO", "ppppp", [0] * 5, [9] * 6, ATTEMPTS, EVERY),
    Sequence("rrrrrh", "ppppp", [0] * 5, [9, 9, 9, 9, 9, 10], ATTEMPTS),
    Sequence("rrrrrb", "ppppp", [0] * 5, [9, 9, 9, 9, 9, 10], ATTEMPTS),
    Sequence("bbbbbb", "ppppp", [0] * 5, [9, 9, 9, 9, 9, 10], ATTEMPTS),
    Sequence("bbbbbh", "ppppp", [0] * 5, [9, 9, 9, 9, 9, 10], ATTEMPTS),
    Sequence("hOhhhh", "spsss", [0, 0.2, 0.001, 0.01, 0.05], [10, 9, 9, 8, 7, 8], ATTEMPTS),
    Sequence("hOOOOO", "spppp", [0, 0.2, 0.4, 0.8, 1.6], [10, 9, 8, 7, 6, 6], ATTEMPTS),
    Sequence("hrrrrr", "spppp", [0] * 5, [10, 10, 10, 10, 10, 11], ATTEMPTS),
    Sequence("rhOOOO", "psppp", [0, 0, 0.4, 0.8, 1.6], [9, 10, 9, 8, 7, 7], ATTEMPTS),
    Sequence("hbbbbr", "spppp", [0] * 5, [10, 10, 10, 10, 10, 11], ATTEMPTS, deadlines=NOT_SET),
    Sequence("hbbbbr", "spppp", [0] * 5, [10, 9, 9, 9, 9, 10], ATTEMPTS, deadlines=(LIMITED,)),
    # A retry by the label ends the endless retries of timeoutMS, and does not lift the limit of ordinary ones.
    Sequence("rhhhhh", "pssss", [0, 0, 0.001, 0.01, 0.05], [9, 10, 9, 8, 7, 8], ATTEMPTS, deadlines=(LIMITED,)),
    Sequence("bhhhhh", "pssss", [0, 0, 0.001, 0.01, 0.05], [9, 10, 9, 8, 7, 8], ATTEMPTS, deadlines=(LIMITED,)),
    Sequence("rhrh", "psp", [0] * 3, [9, 10, 10, 11], ATTEMPTS, deadlines=NOT_SET),
    # One ordinary retry, and with timeoutMS further ones. They back off, and take a token each: what failed before
    # brings nothing back, or the series would pay for itself.
    Sequence("hh", "s", [0], [10, 11], ATTEMPTS, deadlines=NOT_SET),
    Sequence(
        "h" * 10, "s" * 9, [0, *LADDER], [8, 7, 6, 5, 4, 3, 2, 1, 0, 0], TOKENS, ORDINARY, (LIMITED,), {"tokens": 8}
    ),
    Sequence("h" * 9 + "O", "s" * 9, [0, *LADDER], [10, 9, 8, 7, 6, 5, 4, 3, 2, 2], ATTEMPTS, deadlines=(LIMITED,)),
    # maxAdaptiveRetries.
    Sequence("O", "", [], [10], ATTEMPTS, EVERY, settings=NONE_OF_POLICY),
    Sequence("OO", "p", [0.1], [9, 9], ATTEMPTS, EVERY, settings={"policy": OverloadRetry(max_retries=1)}),
    Sequence("rh", "p", [0], [9, 10], ATTEMPTS, settings={"policy": OverloadRetry(max_retries=1)}),
    Sequence(
        "O" * 10,
        "p" * 9,
        [*DELAYS, 3.2, 6.4, 10, 10],
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 1],
        ATTEMPTS,
        settings={"policy": OverloadRetry(max_retries=9)},
    ),
    # The label comes first; the ordinary rule is its fallback, so that no label makes an error less retryable.
    Sequence("b", "p", [0], [9]),
    *(
        Sequence(error, "s", [0], [settings["tokens"]], settings=settings)
        for error in "hb"
        for settings in ({"tokens": 0}, {**NONE_OF_POLICY, "tokens": 10}, {**NONE_OF_POLICY, "tokens": 0})
        if error == "b" or "policy" in settings
    ),
    Sequence("bb", "s", [0], [10, 11], ATTEMPTS, deadlines=NOT_SET, settings=NONE_OF_POLICY),
    Sequence("bbbb", "ssss", [0, *LADDER[:3]], [10, 9, 8, 7], deadlines=(LIMITED,), settings=NONE_OF_POLICY),
    Sequence("bb", "s", [0], [0, 0], TOKENS, deadlines=NOT_SET, settings={"capacity": 0}),
    Sequence("O", "", [], [0], TOKENS, EVERY, settings={"tokens": 0}),
    Sequence("r", "", [], [0], TOKENS, EVERY, settings={"tokens": 0}),
    Sequence("o", "", [], [10], NOT_RETRYABLE, EVERY),
    # The exponent counts all retries; jitter.
    Sequence("hOrm", "sppp", [0, 0.2, 0, 0.08], [10, 9, 9, 8]),
    Sequence("O", "p", [0.05], [9], settings={"jitter": 0.5}),
    Sequence("hhhh", "ssss", [0, 0.0005, 0.005, 0.025], [10, 9, 8, 7], deadlines=(LIMITED,), settings={"jitter": 0.5}),
    # The later revision wants both labels, and delays an ordinary retry of an overloaded server.
    Sequence("OOO", "pp", [0.2, 0.4], [9, 8, 8], ATTEMPTS, EVERY, settings=OF_REVISION),
    Sequence("r", "", [], [10], NOT_RETRYABLE, EVERY, settings=OF_REVISION),
    Sequence("o", "", [], [10], NOT_RETRYABLE, EVERY, settings=OF_REVISION),
    Sequence("www", "ss", [0.2, 0.4], [10, 9, 9], ATTEMPTS, WRITES, settings=OF_REVISION),
    Sequence(
        "www", "sss", [0.2, 0.4, 0.8], [10, 9, 8], None, WRITES, settings={"policy": replace(LATER, max_retries=5)}
    ),
]


@pytest.mark.parametrize(
    ("row", "make", "deadline"),
    [
        pytest.param(row, make, deadline, id=f"{row.errors}-{make.__name__}")
        for row in SEQUENCES
        for make in row.kinds
        for deadline in row.deadlines
    ],
)
def test_a_sequence_of_errors(row: Sequence, make: Any, deadline: Deadline) -> None:
    case = Case(make(), **row.settings)
    errors = [ERRORS[letter]() for letter in row.errors]
    for number, (error, rule, delay) in enumerate(zip(errors, row.rules, row.delays, strict=False)):
        decision = case.again(error, deadline)
        assert (decision.rule, decision.delay) == (RULES[rule], delay)
        is_overload = row.errors[number] in "Om"
        assert decision.deprioritize is (is_overload and row.settings.get("policy") is not LATER)
        assert decision.is_paid is (rule == "p" or (number > 0 and "s" in row.rules[:number]))
        assert case.tokens == row.tokens[number]
        assert case.retry.retries == number + 1
    assert len(row.rules) == len(row.delays) == len(row.errors) - (row.refusal is not None)
    if row.refusal is not None:
        assert case.refused(errors[-1], deadline) is row.refusal
        assert case.tokens == row.tokens[-1]
    if row.refusal is ATTEMPTS:
        # Jitter is asked for once for each delay, not for a retry that is not made.
        assert case.jitters == sum(delay > 0 for delay in row.delays)


def test_operations_share_the_tokens_of_their_series() -> None:
    budget = RetryBudget(20)
    settings = RetrySettings(OverloadRetry(), budget, lambda: 1.0, retry_reads=True, retry_writes=True)
    running = [Retry(settings, read(), LIMITED) for _ in range(50)]
    attempts = 0
    while running:
        attempts += len(running)
        error = host_unreachable()
        running = [retry for retry in running if isinstance(retry.after(failed(error), NOW), Again)]
    assert (attempts, budget.tokens) == (50 + 50 + 20, 0)


def test_a_series_that_succeeds_or_ends_otherwise_gets_its_newest_token_back() -> None:
    for outcome, tokens in ((None, 8.1 + 1), (server_error(), 9)):
        case = Case(tokens=10)
        for _ in range(3):
            case.again(host_unreachable(), LIMITED)
        assert case.tokens == 8
        if outcome is None:
            case.retry.succeeded()
        else:
            case.after(outcome, LIMITED)
        assert case.tokens == tokens


# --- the ordinary rule as the fallback of the label's ---


def test_the_fallback_does_not_bring_the_cap() -> None:
    # No label has permitted a retry of this operation when the ordinary rule does.
    case = Case(tokens=0)
    deadline = Deadline(NOW + 1, inf, 1)
    case.again(both(), deadline)
    assert case.bucket is not None
    for _ in range(3):
        case.bucket.retry_succeeded()  # of other operations
    # Now there is a token, so the label permits the next one; from here on five are all.
    assert case.again(both(), deadline).rule is RetryRule.OVERLOAD_POLICY
    assert [case.again(host_unreachable(), deadline).rule for _ in range(3)] == [RetryRule.SPECIFICATION] * 3
    assert case.refused(host_unreachable(), deadline) is RetryRefusal.ATTEMPTS


def test_the_fallback_needs_the_ordinary_rule_to_apply() -> None:
    for operation, applies in ((other(), True), (write(), False)):
        case = Case(operation, tokens=0)
        decision = case.after(both(), ordinary=applies)
        assert (decision.rule, decision.refusal) == (RetryRule.OVERLOAD_POLICY, RetryRefusal.TOKENS)


@pytest.mark.parametrize("deadline", [NO_DEADLINE, Deadline(NOW + 60, inf, 60)])
@pytest.mark.parametrize(
    ("policy", "tokens", "refusal"),
    [
        (OverloadRetry(), 0, RetryRefusal.TOKENS),
        (OverloadRetry(max_retries=0), 10, RetryRefusal.ATTEMPTS),
    ],
)
def test_an_overload_error_has_no_fallback(
    policy: OverloadRetry, tokens: float, refusal: RetryRefusal, deadline: Deadline
) -> None:
    # Neither one that a server answered nor a connection that was refused.
    labels = ("SystemOverloadedError", "RetryableError", "RetryableWriteError")
    for make in (read, write):
        for error in (server_error(6, *labels), network_error(*labels)):
            case = Case(make(), policy=policy, tokens=tokens)
            assert case.refused(error, deadline) is refusal
            assert case.tokens == tokens


# --- the bucket ---


def test_without_a_bucket_retries_only_back_off() -> None:
    for error, delays in ((overload, DELAYS), (host_unreachable, [0, *LADDER, *[1.0] * 90])):
        case = Case(tokens=None)
        decisions = [case.again(error(), LIMITED) for _ in delays]
        assert [decision.delay for decision in decisions] == delays
        assert not any(decision.is_paid for decision in decisions)
        assert case.refused(server_error()) is RetryRefusal.NOT_RETRYABLE
        case.retry.succeeded()
        case.retry.gave_up()


@pytest.mark.parametrize(
    ("errors", "settings", "tokens", "attempts"),
    [
        ("O", {}, 10, 1),
        ("O", {"tokens": 1000}, 1000, 1),
        # The newest retry is the one that is not made.
        ("hO", {}, 10, 2),
        # Of a series.
        ("hh", {}, 10, 2),
        # What cost nothing brings nothing: by the later revision an ordinary retry may wait, and takes no token.
        ("w", OF_REVISION, 10, 1),
    ],
)
def test_a_retry_that_is_not_made_costs_nothing(
    errors: str, settings: dict[str, Any], tokens: float, attempts: int
) -> None:
    case = Case(write(), **settings)
    for letter in errors:
        case.again(ERRORS[letter](), LIMITED)
    decision = case.retry.gave_up()
    error = case.retry.describe(decision.failure.error)
    assert (case.tokens, decision.refusal) == (tokens, None)
    assert (error.attempts, error.retry_refusal) == (attempts, None)
    assert error.retry_reasons == ("temporary failure",) * (attempts - 1)


@pytest.mark.parametrize(
    ("error", "tokens", "refusal"),
    [
        (server_error(), 10, None),
        (network_error(), 10, RetryRefusal.NOT_RETRYABLE),
        (unsent(), 10, RetryRefusal.DEADLINE),
        (retryable(), 9, None),  # one comes in, one goes out for the next retry
        (overload(), 8, None),
        (server_error(462, "SystemOverloadedError"), 9, RetryRefusal.NOT_RETRYABLE),
    ],
)
def test_what_a_failed_attempt_brings(error: PyMongoError, tokens: float, refusal: RetryRefusal | None) -> None:
    case = Case(other())
    case.again(overload())
    case.after(error, ordinary=False)
    assert case.tokens == tokens
    # A first attempt brings nothing.
    case = Case(other())
    decision = case.after(error, ordinary=False)
    assert decision.refusal is refusal
    assert case.tokens == (10 if isinstance(decision, Raise) else 9)


def test_success_of_a_retry() -> None:
    case = Case()
    case.again(overload())
    case.retry.succeeded()
    assert case.tokens == 10.1


# --- deadlines ---


@pytest.mark.parametrize(
    ("errors", "settings", "delay", "tokens"),
    [("O", {}, 0.1, 9), ("r", {}, 0, 9), ("h", {}, 0, 10), ("b", {"tokens": 0}, 0, 0), ("hhh", {"tokens": 5}, 0.01, 3)],
)
@pytest.mark.parametrize("is_scope", [False, True])
@pytest.mark.parametrize("left", [-1, 0, 0.000001, 0.005, 0.01, 0.0101, 0.05, 0.1, 0.100001, 0.2])
def test_a_delay_must_end_before_the_deadline(
    errors: str, settings: dict[str, Any], delay: float, tokens: float, is_scope: bool, left: float
) -> None:
    case = Case(**settings)
    for letter in errors[:-1]:
        case.again(ERRORS[letter](), LIMITED)
    before, error = case.tokens, ERRORS[errors[-1]]()
    earlier, later = NOW + left, NOW + 5
    deadline = Deadline(later, earlier, 5) if is_scope else Deadline(earlier, later, 1)
    decision = case.after(error, deadline)
    fits = left > delay
    assert isinstance(decision, Again) is fits
    assert case.tokens == (tokens if fits else before)
    if not fits:
        assert (decision.refusal, error.retry_refusal) == (RetryRefusal.DEADLINE, "deadline")
        # The time limit passed between two attempts, or its backoff does not fit. The time of a scope is not the
        # driver's: no phase.
        phase = "backoff" if errors == "O" and left > 0 else "retry delay"
        assert error.phase == (None if is_scope else phase)
        assert error.timeout is (error.phase == "retry delay")


def test_the_phase_that_is_known_already_is_kept() -> None:
    for error in (network_error(), overload()):
        error.phase = "reply"
        assert Case().refused(error, Deadline(NOW, inf, 1)) is RetryRefusal.DEADLINE
        assert error.phase == "reply"


def test_the_phase_of_an_earlier_error_is_not_that_of_the_newest() -> None:
    case = Case()
    first = host_unreachable()
    first.phase = "reply"
    case.again(first)
    newest = overload()
    assert case.refused(newest, Deadline(NOW + 0.05, inf, 1)) is RetryRefusal.DEADLINE
    assert (first.phase, newest.phase) == ("reply", "backoff")


# --- the order of the checks ---


@pytest.mark.parametrize(
    ("error", "reads", "retries", "left", "tokens", "expected"),
    [
        (server_error(6), False, 0, 0, 0, RetryRefusal.NOT_RETRYABLE),
        (overload(), False, 0, 0, 0, RetryRefusal.DISABLED),
        (overload(), True, 0, 0, 0, RetryRefusal.ATTEMPTS),
        (overload(), True, 5, 0, 0, RetryRefusal.DEADLINE),
        (overload(), True, 5, 60, 0, RetryRefusal.TOKENS),
        (overload(), True, 5, 60, 1, None),
    ],
)
def test_order(
    error: PyMongoError, reads: bool, retries: int, left: float, tokens: float, expected: RetryRefusal | None
) -> None:
    case = Case(policy=OverloadRetry(max_retries=retries), reads=reads, tokens=tokens)
    decision = case.after(error, Deadline(NOW + left, inf, left), ordinary=False)
    assert decision.refusal is expected
    assert case.tokens == (0 if expected is None else tokens)
    assert case.jitters == (expected in (RetryRefusal.DEADLINE, RetryRefusal.TOKENS, None))


# --- servers to avoid ---


@pytest.mark.parametrize(
    ("error", "retargets", "is_sharded", "expected"),
    [
        (overload, True, False, True),
        (overload, False, False, False),
        (overload, False, True, True),
        (retryable, True, False, False),
        (retryable, True, True, True),
        (host_unreachable, True, False, False),
        (host_unreachable, False, True, True),
    ],
)
def test_deprioritize(error: Any, retargets: bool, is_sharded: bool, expected: bool) -> None:
    case = Case(policy=OverloadRetry(retargets=retargets))
    assert case.again(error(), is_sharded=is_sharded).deprioritize is expected


# --- the preset of the later revision ---


# --- what the error says ---


def test_the_error_tells_what_was_tried() -> None:
    case = Case(write())
    case.again(overload())
    case.again(host_unreachable())
    case.again(retryable())
    last = server_error()
    decision = case.after(last)
    assert isinstance(decision, Raise)
    assert decision.failure.error is last
    assert (decision.rule, decision.refusal) == (None, RetryRefusal.NOT_RETRYABLE)
    assert (decision.delay, decision.deprioritize) == (0, False)
    assert last.attempts == 4
    assert last.retry_reasons == ("overload", "temporary failure", "retryable error")
    assert last.retry_refusal == "not retryable"
    assert all(type(reason) is str for reason in last.retry_reasons)


AGAIN = "2 attempts, retried for:"


@pytest.mark.parametrize(
    ("first", "last", "settings", "deadline", "text"),
    [
        # The first attempt.
        (None, server_error(), {}, NO_DEADLINE, ""),
        (None, network_error(), {"ordinary": False}, NO_DEADLINE, ""),
        (None, overload(), {"tokens": 0}, NO_DEADLINE, "not retried: tokens"),
        (None, overload(), {"reads": False}, NO_DEADLINE, "not retried: disabled"),
        (None, both(), {"reads": False}, NO_DEADLINE, "not retried: disabled"),
        (None, NetworkTimeout("no"), {"reads": False}, NO_DEADLINE, "not retried: disabled"),
        (None, unsent(), {"ordinary": False}, NO_DEADLINE, "time used up in phase: selection"),
        (
            None,
            overload(),
            {},
            Deadline(NOW + 0.1, inf, 1),
            "too little time left for the backoff; not retried: deadline",
        ),
        (None, overload(), {}, Deadline(inf, NOW + 0.1), "not retried: deadline"),
        # A retry.
        (overload, server_error(), {}, NO_DEADLINE, f"{AGAIN} overload; not retried again: not retryable"),
        (overload, overload(), {"tokens": 1}, NO_DEADLINE, f"{AGAIN} overload; not retried again: tokens"),
        (
            host_unreachable,
            both(),
            {"tokens": 0, "capacity": 0},
            NO_DEADLINE,
            f"{AGAIN} temporary failure; not retried again: tokens",
        ),
        (
            host_unreachable,
            host_unreachable(),
            {},
            NO_DEADLINE,
            f"{AGAIN} temporary failure; not retried again: attempts",
        ),
        (
            overload,
            unsent(),
            {"ordinary": False},
            NO_DEADLINE,
            f"time used up in phase: selection; {AGAIN} overload; not retried again: deadline",
        ),
    ],
)
def test_texts(first: Any, last: PyMongoError, settings: dict[str, Any], deadline: Deadline, text: str) -> None:
    arguments = {"ordinary": settings.get("ordinary", True)}
    case = Case(**{name: value for name, value in settings.items() if name != "ordinary"})
    if first is not None:
        case.again(first())
    decision = case.after(last, deadline, **arguments)
    assert isinstance(decision, Raise)
    error = decision.failure.error
    # An OperationFailure adds what the server answered.
    found = str(error).partition(", full error")[0]
    assert found == (f"{error.args[0]} ({text})" if text else error.args[0])


def test_an_earlier_error_tells_what_happened_to_the_retry() -> None:
    case = Case()
    first = overload()
    case.again(first)
    last = unsent()
    last.phase = "selection"
    decision = case.after(last)
    assert isinstance(decision, Raise)
    assert decision.failure.error is first
    assert (first.attempts, first.retry_reasons, first.phase) == (2, ("overload",), "selection")


def test_an_earlier_error_keeps_its_phase_when_the_newest_has_none() -> None:
    case = Case()
    first = overload()
    first.phase = "reply"
    case.again(first)
    decision = case.after(PyMongoError("before anything was sent"))
    assert isinstance(decision, Raise)
    assert first.phase == "reply"


def test_nothing_written_by_the_retry() -> None:
    for make, raised in ((read, 1), (write, 0), (other, 0)):
        errors = [overload(), server_error(2, "NoWritesPerformed")]
        case = Case(make())
        case.again(errors[0])
        decision = case.after(errors[1])
        assert isinstance(decision, Raise)
        assert decision.failure.error is errors[raised]


def test_few_failures_are_kept() -> None:
    # With timeoutMS there may be very many retries.
    case = Case(tokens=None)
    for _ in range(20):
        case.again(host_unreachable(), Deadline(NOW + 60))
    assert len(case.retry._failures) == 3


def test_an_error_in_a_reply_that_says_ok() -> None:
    case = Case()
    case.again(overload())
    case.retry.succeeded()
    error = server_error()
    case.retry.describe(error)
    assert (error.attempts, error.retry_reasons, error.retry_refusal) == (2, ("overload",), None)


@pytest.mark.parametrize("phase", ["selection", "queue", "connecting", "reply"])
@pytest.mark.parametrize("is_retry", [False, True])
def test_the_deadline_ended_what_was_out_of_time(phase: str, is_retry: bool) -> None:
    case = Case(other())
    if is_retry:
        case.again(overload())
    error = ServerSelectionTimeoutError("none")
    error.phase = phase
    decision = case.after(error, ordinary=False)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (None, RetryRefusal.DEADLINE)
    assert (decision.failure.error.attempts, decision.failure.error.retry_refusal) == (1 + is_retry, "deadline")


@pytest.mark.parametrize("make", [read, write, other])
@pytest.mark.parametrize("error", [server_error(26), server_error(11000), server_error(462), PyMongoError("x")])
def test_nothing_is_refused_where_no_rule_is_about_the_error(make: Any, error: PyMongoError) -> None:
    case = Case(make())
    decision = case.after(error)
    assert isinstance(decision, Raise)
    assert (decision.failure.error, decision.refusal) == (error, None)
    assert (error.attempts, error.retry_refusal) == (1, None)
    # After a retry it is the answer to the question why there is not another.
    case = Case(make())
    case.again(overload())
    assert case.refused(error) is RetryRefusal.NOT_RETRYABLE
