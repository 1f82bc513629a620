"""Counts what was imported; synchronous, for cron."""
import os

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure

if __name__ == "__main__":
    try:
        with MongoClient(os.environ["MONGODB_URI"]) as client:
            print(client[os.environ["MONGODB_DATABASE"]].measurements.estimated_document_count())
    except ConnectionFailure:
        raise SystemExit(1)
