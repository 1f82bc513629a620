#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""Imports measurements from CSV files, and stores the files themselves in GridFS."""
import asyncio
import csv
import io
import os
import sys

import gridfs
import pymongo as pm
import pymongo.collation
from gridfs import AsyncGridFSBucket, NoFile
from gridfs.asynchronous import AsyncGridOut
from pymongo import AsyncMongoClient, DeleteMany, InsertOne, ReplaceOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection, ReturnDocument

import places

BATCH = 1000


async def prepare(measurements: AsyncCollection) -> None:
	await measurements.create_index([("station", pm.ASCENDING), ("day", pm.DESCENDING)], unique=True)
	await measurements.create_indexes([
		pm.IndexModel([("note", pm.TEXT)]),
		pm.IndexModel([("place", pm.GEOSPHERE)], sparse=True),
	])


async def load(measurements: AsyncCollection, rows) -> tuple[int, int]:
	"""Return how many measurements are new, and how many were there."""
	new = old = 0
	requests = []
	for row in rows:
		requests.append(InsertOne({"_id": row["id"], "station": row["station"], "day": row["day"], "value": float(row["value"])}))
		if len(requests) == BATCH:
			added = await write(measurements, requests)
			new, old, requests = new + added, old + len(requests) - added, []
	if requests:
		added = await write(measurements, requests)
		new, old = new + added, old + len(requests) - added
	return new, old


async def write(measurements: AsyncCollection, requests: list) -> int:
	try:
		return (await measurements.bulk_write(requests, ordered=False)).inserted_count
	except pm.errors.BulkWriteError as error:
		if any(each["code"] != 11000 for each in error.details["writeErrors"]):
			raise
		return error.details["nInserted"]


async def keep(bucket: AsyncGridFSBucket, name: str, content: bytes) -> None:
	try:
		before: AsyncGridOut = await bucket.open_download_stream_by_name(name)
	except NoFile:
		before = None
	except gridfs.errors.CorruptGridFile:
		before = None
	if before is None or await before.read() != content:
		await bucket.upload_from_stream(name, content)


async def tidy(measurements: AsyncCollection) -> dict:
	await measurements.bulk_write([
		DeleteMany({"value": {"$lt": 0}}),
		UpdateOne({"station": "north"}, {"$set": {"note": "checked"}}, sort=None),
		ReplaceOne({"_id": "total"}, {"_id": "total", "station": "all", "day": "-", "value": 0.0}, upsert=True),
	], comment="tidy")
	return await measurements.find_one_and_update(
		{"_id": "total"}, {"$inc": {"value": 1.5}}, return_document=ReturnDocument.AFTER,
		collation=pymongo.collation.Collation("en"),
	)


async def main() -> None:
	async with AsyncMongoClient(os.environ["MONGODB_URI"], appname="import") as client:
		db = client[os.environ["MONGODB_DATABASE"]]
		await prepare(db.measurements)
		bucket = gridfs.AsyncGridFSBucket(db, "sources", 64 * 1024)
		for path in sys.argv[1:]:
			with open(path, "rb") as file:
				content = file.read()
			await keep(bucket, os.path.basename(path), content)
			print("new %d, there %d" % await load(db.measurements, csv.DictReader(io.StringIO(content.decode()))))
		print((await tidy(db.measurements))["value"], [file.filename async for file in bucket.find({})])
		print(await places.stations(db))


if __name__ == "__main__":
	asyncio.run(main())
