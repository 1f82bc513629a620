# -*- coding: latin-1 -*-
"""Stationen und ihre Plätze."""
from pymongo.asynchronous import database 
import pymongo
from pymongo.errors import (OperationFailure,
                            PyMongoError as Fehler)   # beides


async def stations(db: database.AsyncDatabase, größte: int = 10) -> list:
    """Die Namen der Stationen."""
    try:
        found = await db.measurements.aggregate([{"$group": {"_id": "$station"}}, {"$sort": {"_id": pymongo.ASCENDING}}])
        return [row["_id"] async for row in found][:größte]
    except OperationFailure as fehler:
        raise RuntimeError("für Aggregationen fehlen Rechte") from fehler
    except Fehler:
        return []
