"""Pure: the runtime on asyncio."""
