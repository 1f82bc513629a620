"""Records a client's log messages, and compares them with those that a test expects."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified.outcomes import BadTest, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite import AsyncMongoClient
    from tests.spec.unified.matching import Matcher

# Components of the logging specification: the driver's logger of each.
COMPONENTS: Final = {
    "command": "motorlite.command",
    "connection": "motorlite.connection",
    "topology": "motorlite.topology",
    "serverSelection": "motorlite.serverSelection",
}
MAX_DOCUMENT_LENGTH: Final = 100_000
# The specification's levels as the standard library has them.
LEVELS: Final = {
    "emergency": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "notice": logging.INFO,
    "informational": logging.INFO,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
}


class LogRecord(logging.Handler):
    """The log messages of one client, oldest first."""

    def __init__(self, observed: Mapping[str, str]) -> None:
        super().__init__()
        self.messages: list[logging.LogRecord] = []
        self.is_recording: bool = True
        self._observed = observed

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_recording:
            self.messages.append(record)

    def attach(self, client: AsyncMongoClient[Any]) -> None:
        """Take what one client logs: every client logs to the same loggers, so it is given its own ones.

        Raises:
            BadTest: a component is not known.
        """
        logs = {log.logger.name: log for _, log in client._core._publishers._logs}
        for component, level in self._observed.items():
            if component not in COMPONENTS:
                raise BadTest(f"log component {component!r} is not known")
            name = COMPONENTS[component]
            logger = logging.Logger(name, LEVELS[level])
            logger.addHandler(self)
            logs[name].logger = logger
            # Documents in messages are compared, so they must be whole.
            logs[name].max_length = MAX_DOCUMENT_LENGTH
        client._core._publishers.refresh()


def check_messages(expectation: Mapping[str, Any], observed: Sequence[logging.LogRecord], matcher: Matcher) -> None:
    """Compare the messages of a client with one entry of `expectLogMessages`.

    Raises:
        Failed: They do not match.
    """
    ignored = expectation.get("ignoreMessages", ())
    found = [record for record in observed if not any(_matches(one, record, matcher) for one in ignored)]
    expected = expectation["messages"]
    listed = "".join(f"\n    {record.getMessage()[:300]}" for record in found)
    if len(found) < len(expected) or (len(found) > len(expected) and not expectation.get("ignoreExtraMessages", False)):
        raise Failed(f"expected {len(expected)} log messages, found {len(found)}:{listed}")
    for index, (one, record) in enumerate(zip(expected, found, strict=False)):
        try:
            _check(one, record, matcher)
        except Failed as failure:
            raise Failed(f"log message {index}: {failure}; messages:{listed}") from None


def _matches(expected: Mapping[str, Any], record: logging.LogRecord, matcher: Matcher) -> bool:
    try:
        _check(expected, record, matcher)
    except Failed:
        return False
    return True


def _check(expected: Mapping[str, Any], record: logging.LogRecord, matcher: Matcher) -> None:
    level, component = expected["level"], expected["component"]
    if record.levelno != LEVELS[level]:
        raise Failed(f"expected the level {level}, found {record.levelname}")
    if component not in COMPONENTS:
        raise BadTest(f"log component {component!r} is not known")
    if record.name != COMPONENTS[component]:
        raise Failed(f"expected the component {component}, found {record.name}")
    fields: Mapping[str, Any] = getattr(record, "motorlite")  # noqa: B009  # an attribute of the driver's
    matcher.match(expected["data"], fields, "data", is_root=True)
    if "failureIsRedacted" in expected:
        failure = fields.get("failure")
        if failure is None:
            raise Failed("expected a failure")
        if ("errmsg" not in str(failure)) is not expected["failureIsRedacted"]:
            raise Failed(f"expected a failure that is redacted: {expected['failureIsRedacted']}, found {failure!r}")
