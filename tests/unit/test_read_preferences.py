"""Read preferences are immutable values, made to be dictionary keys."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.read_preferences import (
    Nearest,
    Primary,
    ReadPreference,
    Secondary,
    ServerMode,
    make_read_preference,
    read_pref_mode_from_name,
)


@pytest.mark.parametrize(
    ("preference", "mode", "name", "mongos_mode"),
    [
        (ReadPreference.PRIMARY, 0, "Primary", "primary"),
        (ReadPreference.PRIMARY_PREFERRED, 1, "PrimaryPreferred", "primaryPreferred"),
        (ReadPreference.SECONDARY, 2, "Secondary", "secondary"),
        (ReadPreference.SECONDARY_PREFERRED, 3, "SecondaryPreferred", "secondaryPreferred"),
        (ReadPreference.NEAREST, 4, "Nearest", "nearest"),
    ],
)
def test_modes(preference: ServerMode, mode: int, name: str, mongos_mode: str) -> None:
    assert (preference.mode, preference.name, preference.mongos_mode) == (mode, name, mongos_mode)
    assert preference.document == {"mode": mongos_mode}
    assert (preference.tag_sets, preference.max_staleness, preference.hedge) == ([{}], -1, None)
    assert preference.min_wire_version == 0
    assert read_pref_mode_from_name(mongos_mode) == mode
    for made in (make_read_preference(mode, None), pickle.loads(pickle.dumps(preference))):
        assert type(made) is type(preference)
        assert {preference: 1}[made] == 1


def test_document_has_what_was_given() -> None:
    preference = Secondary([{"dc": "ny"}, {}], 120)
    assert preference.document == {
        "mode": "secondary",
        "tags": [{"dc": "ny"}, {}],
        "maxStalenessSeconds": 120,
    }
    assert preference.document is preference.document
    assert preference.min_wire_version == 5
    assert repr(preference) == "Secondary(tag_sets=[{'dc': 'ny'}, {}], max_staleness=120)"
    assert repr(Primary()) == "Primary()"


def test_hedge_warns_once_and_is_sent() -> None:
    with pytest.warns(DeprecationWarning, match="hedged reads are deprecated") as caught:
        preference = Nearest(hedge={"enabled": True})
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert preference.document == {"mode": "nearest", "hedge": {"enabled": True}}
    assert "hedge={'enabled': True}" in repr(preference)
    # No second warning (warnings are errors).
    assert pickle.loads(pickle.dumps(preference)) == preference != ReadPreference.NEAREST


def test_pickle_from_a_process_that_hashes_strings_differently() -> None:
    script = (
        "import pickle, sys; from motorlite.read_preferences import Secondary; "
        "sys.stdout.buffer.write(pickle.dumps(Secondary([{'dc': 'ny'}])))"
    )
    made = subprocess.run(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        check=True,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert {Secondary([{"dc": "ny"}]): 1}[pickle.loads(made.stdout)] == 1


def test_equality_and_hash() -> None:
    one, same = Secondary([{"a": "1", "b": "2"}], 90), Secondary([{"b": "2", "a": "1"}], 90)
    assert one == same
    assert hash(one) == hash(same)
    others = [
        Secondary([{"a": "1"}], 90),
        Secondary([{"a": "1", "b": "2"}], 91),
        Nearest([{"a": "1", "b": "2"}], 90),
        Secondary([{"a": "1", "b": "2"}, {}], 90),
    ]
    assert len({one, same, *others}) == 5
    assert one != "secondary"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"tag_sets": {"a": "b"}}, TypeError, "must be a list of mappings, not"),
        ({"tag_sets": "a:b"}, TypeError, "must be a list of mappings, not 'a:b'"),
        ({"tag_sets": []}, ValueError, "at least one set"),
        ({"tag_sets": ["a"]}, TypeError, "contains 'a'"),
        ({"tag_sets": [{"a": 1}]}, TypeError, "must be strings, but one is"),
        ({"max_staleness": 0}, ValueError, "positive number of seconds, or -1 for no limit, not 0"),
        ({"max_staleness": -2}, ValueError, "not -2"),
        ({"max_staleness": 90.5}, TypeError, "not 90.5"),
        ({"max_staleness": True}, TypeError, "not True"),
        ({"hedge": [1]}, TypeError, "hedge must be a mapping"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Secondary(**arguments)


def test_wrong_modes() -> None:
    assert make_read_preference(0, [{}]) is ReadPreference.PRIMARY
    with pytest.raises(ConfigurationError, match="tag sets"):
        make_read_preference(0, [{"dc": "ny"}])
    with pytest.raises(ConfigurationError, match="maxStalenessSeconds=120"):
        make_read_preference(0, None, 120)
    with pytest.raises(ValueError, match="one of primary, primaryPreferred"):
        read_pref_mode_from_name("Primary")
    with pytest.raises(ValueError, match="from 0 to 4, not 5"):
        make_read_preference(5, None)
