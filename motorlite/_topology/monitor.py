"""Shell: monitors one server (server monitoring specification), by streaming if possible and by polling otherwise.

A monitor has its own connection, never takes part in operations, and obeys no deadline except its own timeouts. While
it streams, a second connection measures round-trip times.
"""

from __future__ import annotations

import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite._connection.establish import EstablishmentError
from motorlite._connection.handshake import monitor_hello
from motorlite._net.runtime import WaitTimeout
from motorlite._topology.server_description import ServerDescription
from motorlite._wire.replies import error_from_reply
from motorlite.errors import AutoReconnect, ProtocolError, PyMongoError, detached

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._connection.establish import Establisher
    from motorlite._net.runtime import BackgroundTask, Host, Runtime, Waiter
    from motorlite.server_api import ServerApi


# The round-trip times of one server, their moving average and their minimum.

# Server selection specification, "Calculation of Average Round Trip Times".
ALPHA: Final = 0.2
# Server monitoring specification, "Measuring RTT": the minimum of the last ten, 0 until there are two.
MINIMUM_OF_LAST: Final = 10
MINIMUM_NEEDS: Final = 2


class RoundTripTimes:
    """The monitor's measurements of one server, in seconds.

    Attributes:
        average: Exponentially weighted moving average, or None without samples.
        minimum: Smallest of the newest ten samples, 0.0 until there are two. It errs on the low side, because an
            operation fails without being sent if less than this is left of its deadline.
    """

    __slots__ = ("_newest", "average", "minimum")

    def __init__(self) -> None:
        self.average: float | None = None
        self.minimum: float = 0.0
        self._newest: deque[float] = deque(maxlen=MINIMUM_OF_LAST)

    def add(self, sample: float) -> None:
        """Add one measured duration of hello.

        Raises:
            ValueError: `sample` is negative, so the clock is not monotonic.
        """
        if sample < 0.0:
            raise ValueError(f"a round-trip time cannot be negative: {sample!r}")
        self.average = sample if self.average is None else ALPHA * sample + (1.0 - ALPHA) * self.average
        self._newest.append(sample)
        if len(self._newest) >= MINIMUM_NEEDS:
            self.minimum = min(self._newest)

    def reset(self) -> None:
        """Discard all samples, because the server became unavailable."""
        self.average = None
        self.minimum = 0.0
        self._newest.clear()


# Minimum seconds between two checks (server discovery specification).
MIN_HEARTBEAT_INTERVAL: Final = 0.5
# Not specified: this many changes may follow one another immediately, as in an election. Then each takes the interval.
MAX_BURST: Final = 5


class Pace:
    """Limits how often the changes that servers report take effect; `interval` is in seconds."""

    __slots__ = ("_due", "_interval")

    def __init__(self, interval: float) -> None:
        self._interval = interval
        # Loop time at which the next change would follow if each one had waited for the interval.
        self._due = -inf

    def delay(self, now: float) -> float:
        """Count a change at the loop time `now`; return after how many seconds it may take effect."""
        self._due = max(self._due, now - MAX_BURST * self._interval) + self._interval
        return max(0.0, self._due - now)


_logger: Final = logging.getLogger("motorlite.client")


class MonitorSettings(NamedTuple):
    """The settings that all monitors of a client share; times in seconds."""

    heartbeat_frequency: float
    # 0: no timeout.
    connect_timeout: float
    streaming: bool
    server_api: ServerApi | None
    min_heartbeat_interval: float


class Monitor:
    """Checks one server until the monitor is stopped."""

    def __init__(
        self,
        address: Address,
        settings: MonitorSettings,
        *,
        runtime: Runtime,
        establisher: Establisher,
        on_checked: Callable[[ServerDescription], None],
        on_failed: Callable[[Address, PyMongoError], bool],
        publish: Callable[[events.ServerHeartbeatEvent], None] | None,
    ) -> None:
        self.address = address
        self.round_trip_times: RoundTripTimes = RoundTripTimes()
        self._settings = settings
        self._runtime = runtime
        self._establisher = establisher
        self._on_checked = on_checked
        # Returns whether the next check follows immediately.
        self._on_failed = on_failed
        self._publish = publish
        self._tasks: list[BackgroundTask] = []
        self._connection: Connection | None = None
        # The last successful reply. None: the next check opens a connection.
        self._reply: Mapping[str, Any] | None = None
        self._is_checking = False
        self._is_check_cancelled = False
        # A check whose outcome arrived together with the stop goes on to its next await, on trio.
        self._is_stopped = False
        # Loop time of the last check that immediately followed a lost connection.
        self._retried_at = -inf
        self._streamed = Pace(settings.min_heartbeat_interval)
        # The last check was awaited: the server chose when to reply.
        self._was_awaited = False
        # Waiter for the pause between two checks, and whether a check was requested in the meantime.
        self._sleeper: Waiter | None = None
        self._is_check_wanted = False
        self._is_measuring = False
        self._ping_connection: Connection | None = None

    def start(self, host: Host, delay: float = 0.0) -> None:
        """Start checking in the background, after `delay` seconds."""
        self._host = host
        self._tasks.append(host.spawn(self._run, delay, name=f"monitor {format_address(self.address)}"))

    def stop(self) -> None:
        """Stop checking; returns immediately."""
        self._is_stopped = True
        for task in self._tasks:
            task.cancel()
        self._close()
        if self._ping_connection is not None:
            self._ping_connection.close()

    def request_check(self) -> None:
        """Check within the minimum interval; a running check is sufficient."""
        if self._sleeper is not None:
            self._sleeper.offer(True)
        elif self._is_check_cancelled:
            self._is_check_wanted = True

    def cancel_check(self) -> None:
        """Abort the running check, because an operation found the server gone; the next one opens a new connection."""
        if self._connection is None:
            return  # a check that is still connecting will notice on its own
        if self._is_checking:
            self._is_check_cancelled = True
            self._connection.close()
        else:
            self._close()

    async def _run(self, delay: float) -> None:
        if delay:
            await self._runtime.sleep(delay)
        try:
            while True:
                try:
                    is_next_at_once = await self._check()
                except Exception:
                    # A bug, here or in the handlers of the check. Monitoring continues regardless.
                    _logger.exception("a check of %s failed; the next one follows", format_address(self.address))
                    self._close()
                    is_next_at_once = False
                if not is_next_at_once:
                    await self._sleep()
                elif self._was_awaited:
                    await self._pace()
        finally:
            self._close()

    async def _check(self) -> bool:
        """Perform one check; return True if the next one follows immediately."""
        awaited = self._connection is not None and self._is_streaming
        started = self._runtime.now()
        if self._publish:
            self._publish(events.ServerHeartbeatStartedEvent(self.address, awaited))
        self._is_checking = True
        self._was_awaited = False
        try:
            reply = await self._hello()
            if self._is_stopped:
                return False
            if self._is_check_cancelled:
                # The reply had already arrived, but it is older than the error that cancelled the check.
                raise AutoReconnect("the check was cancelled")
            now = self._runtime.now()
            description = ServerDescription.from_hello(
                self.address,
                reply,
                round_trip_time=self.round_trip_times.average,
                min_round_trip_time=self.round_trip_times.minimum,
                now=now,
            )
        except PyMongoError as error:
            return self._failed(error, awaited, started)
        except Exception as error:
            # A reply of an unexpected shape must not end the monitoring of its server.
            strange = ProtocolError(f"the reply to hello cannot be used: {error!r}")
            return self._failed(strange, awaited, started)
        finally:
            self._is_checking = False
        if self._publish:
            self._publish(events.ServerHeartbeatSucceededEvent(self.address, awaited, now - started, reply))
        self._reply = reply
        self._was_awaited = awaited
        self._on_checked(description)
        if self._is_streaming and not self._is_measuring:
            self._is_measuring = True
            self._tasks.append(self._host.spawn(self._measure, name=f"round-trip times {format_address(self.address)}"))
        return self._is_streaming

    def _failed(self, error: PyMongoError, awaited: bool, started: float) -> bool:
        was_cancelled, self._is_check_cancelled = self._is_check_cancelled, False
        self._close()
        if self._is_stopped:
            return False
        if error.address is None:
            error.address = self.address
        self.round_trip_times.reset()
        if self._publish:
            duration = self._runtime.now() - started
            self._publish(events.ServerHeartbeatFailedEvent(self.address, awaited, duration, error))
        if was_cancelled or not self._on_failed(self.address, error):
            return False
        now = self._runtime.now()
        if now - self._retried_at < self._settings.min_heartbeat_interval:
            # The server completes handshakes and disconnects each time. Check again soon, but not in a tight loop.
            self._is_check_wanted = True
            return False
        self._retried_at = now
        return True

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._reply = None

    @property
    def _is_streaming(self) -> bool:
        """Whether the server sends the next reply when something changes."""
        if self._connection is not None and self._connection.streaming is not None:
            return True
        return self._settings.streaming and self._reply is not None and self._reply.get("topologyVersion") is not None

    async def _hello(self) -> Mapping[str, Any]:
        connection, before = self._connection, self._reply
        if connection is None or before is None:
            return await self._open()
        settings = self._settings
        interval = settings.heartbeat_frequency
        hello_ok = before.get("helloOk") is True
        reply: Mapping[str, Any]
        if self._is_streaming:
            version, wait_ms = before.get("topologyVersion"), round(interval * 1000)
            document = monitor_hello(hello_ok, version, wait_ms, server_api=settings.server_api)
            reply = await connection.command("admin", document, self._limit(interval), is_exhaust=True)
        else:
            document = monitor_hello(hello_ok, server_api=settings.server_api)
            started = self._runtime.now()
            reply = await connection.command("admin", document, self._limit(0.0))
            self.round_trip_times.add(self._runtime.now() - started)
        if reply.get("ok") != 1:
            raise error_from_reply(reply)
        return reply

    async def _open(self) -> Mapping[str, Any]:
        connection = self._connection = await self._establish()
        self.round_trip_times.add(connection.hello_duration)
        return connection.handshake.reply

    async def _establish(self) -> Connection:
        try:
            return await self._establisher.open(self.address, 0, 0, self._limit(0.0), authenticate=False)
        except EstablishmentError as failure:
            raise detached(failure.error) from failure  # a copy, or the error would be the cause of its own cause

    def _limit(self, wait: float) -> float:
        """Return the loop time at which a reply counts as lost if the server may delay it by `wait` seconds."""
        timeout = self._settings.connect_timeout
        return self._runtime.now() + timeout + wait if timeout else inf

    async def _pace(self) -> None:
        """Limit the rate of reading from a server that reports changes all the time.

        Each reply may name a hundred new members, and monitoring them would leave the event loop no time for anything
        else.
        """
        delay = self._streamed.delay(self._runtime.now())
        if delay:
            await self._runtime.sleep(delay)

    async def _sleep(self) -> None:
        settings = self._settings
        started = self._runtime.now()
        if not self._is_check_wanted:
            self._sleeper = self._runtime.waiter()
            try:
                await self._sleeper.wait(started + settings.heartbeat_frequency)
            except WaitTimeout:
                pass  # the ordinary interval
            finally:
                self._sleeper = None
        self._is_check_wanted = False
        rest = started + settings.min_heartbeat_interval - self._runtime.now()
        if rest > 0:
            await self._runtime.sleep(rest)

    # --- round-trip times while streaming ---

    async def _measure(self) -> None:
        """Measure on a separate connection; errors here say nothing about the server, the monitor will detect them."""
        try:
            while True:
                if self._is_streaming:
                    try:
                        self.round_trip_times.add(await self._ping())
                    except PyMongoError:
                        self._close_ping()
                    except Exception:
                        _logger.exception(
                            "measuring round trips to %s failed; it continues", format_address(self.address)
                        )
                        self._close_ping()
                else:  # the server is gone, or an older one replaced it
                    self._close_ping()
                await self._runtime.sleep(self._settings.heartbeat_frequency)
        finally:
            self._close_ping()

    async def _ping(self) -> float:
        connection = self._ping_connection
        if connection is None:
            connection = self._ping_connection = await self._establish()
            return connection.hello_duration
        started = self._runtime.now()
        document = monitor_hello(connection.handshake.hello_ok, server_api=self._settings.server_api)
        await connection.command("admin", document, self._limit(0.0))
        return self._runtime.now() - started

    def _close_ping(self) -> None:
        if self._ping_connection is not None:
            self._ping_connection.close()
            self._ping_connection = None
