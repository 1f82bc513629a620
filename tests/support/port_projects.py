"""The programs of `tests/port_projects`, and what a person has to change in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parents[1] / "port_projects"
PROJECTS: Final = ("motor_service", "pymongo_worker", "import_script")

# What a person writes, by file and line. The command must have listed each of these lines as one to change by hand.
BY_HAND: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "motor_service": {
        "requirements.txt": {
            "motor[srv]>=3.4,<4  # the driver\n": "motorlite\n",
            "pymongo>=4.6\n": "",
        },
        "shop/main.py": {
            '    db.log.insert_one({"restock": counts})\n': '    await db.log.insert_one({"restock": counts})\n'
        },
        "shop/products.py": {
            "        while (await cursor.fetch_next):\n": "        async for product in cursor:\n",
            '            found.append(cursor.next_object()["sku"])\n': '            found.append(product["sku"])\n',
        },
        "tests/conftest.py": {
            "    client.get_io_loop = asyncio.get_running_loop\n": "",
            "    client.close()\n": "",
            '    with mock.patch("motor.motor_asyncio.AsyncIOMotorClient") as found:\n': (
                '    with mock.patch("motorlite.AsyncMongoClient") as found:\n'
            ),
        },
    },
    "pymongo_worker": {
        "pyproject.toml": {'    "pymongo>=4.13",\n': '    "motorlite",\n'},
        "worker/connection.py": {
            '        log.info("PyMongo %s, C extension: %s", motorlite.version, pymongo.has_c())\n': (
                '        log.info("motorlite %s, C extension: %s", motorlite.version, bson.has_c())\n'
            ),
            "import pymongo\n": "import bson\n",
        },
        "worker/consumer.py": {
            "    from pymongo.asynchronous.change_stream import AsyncCollectionChangeStream\n": (
                "    from motorlite import AsyncChangeStream\n"
            ),
            "    stream: AsyncCollectionChangeStream[dict]\n": "    stream: AsyncChangeStream[dict]\n",
        },
    },
    "import_script": {
        "compare.py": {
            "from pymongo.errors import AutoReconnect\n": "from motorlite.errors import AutoReconnect\n",
        },
    },
}


def copied(name: str, target: Path) -> Path:
    """Copy a program, and return its folder."""
    folder = target / name
    shutil.copytree(FOLDER / name, folder)
    return folder


def change_by_hand(name: str, folder: Path) -> None:
    """Make the changes that a person has to make."""
    for file, lines in BY_HAND[name].items():
        path = folder / file
        text = path.read_text(encoding="utf-8")
        for before, after in lines.items():
            assert text.count(before) == 1, f"{file}: {before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
