"""Operations on a GridFS bucket."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from tests.spec.unified.operations.method import Method
from tests.spec.unified.outcomes import BadTest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Arguments, Handler

_TIME: Final = "timeoutMS=timeoutMS"


async def _download(bucket: Any, arguments: Arguments) -> bytes:
    destination = io.BytesIO()
    await Method("download_to_stream", f"id=file_id destination {_TIME}")(
        bucket, {**arguments, "destination": destination}
    )
    return destination.getvalue()


async def _download_by_name(bucket: Any, arguments: Arguments) -> bytes:
    destination = io.BytesIO()
    await Method("download_to_stream_by_name", f"filename revision destination {_TIME}")(
        bucket, {**arguments, "destination": destination}
    )
    return destination.getvalue()


def _stream(source: Mapping[str, Any]) -> io.BytesIO:
    ((name, digits),) = source.items()
    if name != "$$hexBytes":
        raise BadTest(f"a source has no {name}")
    return io.BytesIO(bytes.fromhex(digits))


async def _upload(bucket: Any, arguments: Arguments) -> Any:
    # MD5 is not computed anyway: then this argument is to have no effect ("disableMD5").
    arguments.pop("disableMD5", None)
    method = "upload_from_stream_with_id" if "id" in arguments else "upload_from_stream"
    names = f"id=file_id filename source chunkSizeBytes metadata {_TIME}"
    return await Method(method, names, converters={"source": _stream})(bucket, arguments)


async def _find(bucket: Any, arguments: Arguments) -> list[Mapping[str, Any]]:
    names = f"filter allowDiskUse batchSize limit maxTimeMS=max_time_ms noCursorTimeout skip sort {_TIME}"
    found = await Method("find", names)(bucket, arguments)
    return [file._document for file in found]


OPERATIONS: Final[Mapping[str, Handler]] = {
    "delete": Method("delete", f"id=file_id {_TIME}"),
    "deleteByName": Method("delete_by_name", f"filename {_TIME}"),
    "download": _download,
    "downloadByName": _download_by_name,
    "drop": Method("drop", _TIME),
    "find": _find,
    "rename": Method("rename", f"id=file_id newFilename {_TIME}"),
    "renameByName": Method("rename_by_name", f"filename newFilename {_TIME}"),
    "upload": _upload,
}
