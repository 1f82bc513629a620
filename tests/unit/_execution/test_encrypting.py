"""What a client with automatic encryption passes on without looking at it."""

from __future__ import annotations

import datetime

import bson
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument

from motorlite._execution.encrypting import _RAW, _fields


def test_the_fields_of_a_command_are_encoded_again_as_they_were() -> None:
    for value in (DatetimeMS(2**60), DatetimeMS(-(2**60)), datetime.datetime(2026, 1, 1, 1, 1, 1, 7000)):
        encoded = bson.encode({"find": "people", "comment": value, "filter": {"at": value}, "values": [value]})
        assert bson.encode(_fields(encoded), codec_options=_RAW) == encoded


def test_text_that_is_not_in_utf_8_does_not_hide_a_reply() -> None:
    encoded = bson.encode({"ok": 1, "values": ["text"]}).replace(b"text", b"t\xff\xffe")
    assert RawBSONDocument(encoded, _RAW)["ok"] == 1
