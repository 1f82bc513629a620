"""What tests with real servers share."""

from __future__ import annotations

from typing import Any

# For programs in the development mode of Python, whose standard error must stay empty: asyncio says there which steps
# took long, which is a word about the machine.
NO_WORD_ABOUT_SLOW_STEPS = """
exec('''
import logging
logging.getLogger("asyncio").addFilter(lambda record: not record.msg.startswith("Executing %s took"))
''', {})  # in a namespace of its own: a filter with the program's would keep all that is in it
"""


def numbered(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Documents with the ids from 0 on."""
    return [{"_id": number, **fields} for number in range(count)]
