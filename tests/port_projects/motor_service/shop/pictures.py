from gridfs import NoFile
from gridfs.errors import CorruptGridFile
from motor import motor_asyncio


async def store(bucket: motor_asyncio.AsyncIOMotorGridFSBucket, name: str, content: bytes):
    async with bucket.open_upload_stream(name, metadata={"kind": "picture"}) as grid_in:
        await grid_in.write(content)
    return grid_in._id


async def stream(bucket: motor_asyncio.AsyncIOMotorGridFSBucket, name: str, start: int = 0):
    """Yield a picture in pieces."""
    try:
        grid_out = await bucket.open_download_stream_by_name(name)
    except (NoFile, CorruptGridFile):
        return
    grid_out.seek(start)
    async for chunk in grid_out:
        yield chunk
