"""Shell: one request to a service that is not the deployment: a metadata service, a key management service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite.errors import AutoReconnect

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer


async def ask(connect: Connector, address: Address, reader: Framer, request: bytes, until: float) -> None:
    """Send `request` over a connection of its own, and wait until `reader` has the response.

    The end of the stream may be the end of the response; the reader knows.

    Raises:
        AutoReconnect: The service did not answer by the loop time `until`.
    """
    stream = await connect(address, reader, until)
    try:
        await stream.exchange(request, until)
    except AutoReconnect as error:
        if error.timeout or reader.is_empty:
            raise
    finally:
        stream.abort()
