"""Pure: the public names of motorlite, an async MongoDB driver for asyncio and trio."""
