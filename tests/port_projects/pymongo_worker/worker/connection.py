import logging
from contextlib import asynccontextmanager
from typing import AsyncIterator

import pymongo
import pymongo.errors
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient as Client, monitoring
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.server_api import ServerApi, ServerApiVersion

log = logging.getLogger(__name__)


class SlowCommands(monitoring.CommandListener):
    """Logs what takes long."""

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        pass

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        if event.duration_micros > 100_000:
            log.warning("%s took %d us", event.command_name, event.duration_micros)

    def failed(self, event: "monitoring.CommandFailedEvent") -> None:
        log.warning("%s failed", event.command_name)


@asynccontextmanager
async def connected(uri: str) -> AsyncIterator[Client]:
    client = Client(
        uri,
        event_listeners=[SlowCommands()],
        server_api=ServerApi(ServerApiVersion.V1),
        retryWrites=True,
    )
    try:
        with pymongo.timeout(10):
            await client.aconnect()
        log.info("PyMongo %s, C extension: %s", pymongo.version, pymongo.has_c())
        yield client
    except pymongo.errors.ServerSelectionTimeoutError:
        log.error("no server")
        raise
    finally:
        await client.close()


def ledger_of(client: Client, database: str) -> "AsyncCollection":
    return client[database].get_collection(
        "ledger",
        codec_options=CodecOptions(tz_aware=True),
        read_preference=ReadPreference.PRIMARY,
        write_concern=pymongo.WriteConcern("majority", wtimeout=5000),
        read_concern=ReadConcern("majority"),
    )
