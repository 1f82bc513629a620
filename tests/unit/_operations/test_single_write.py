from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._operations.single_writes import Delete, Update
from motorlite._operations.statements import delete_statement, update_statement
from motorlite.errors import ConfigurationError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, sent

if TYPE_CHECKING:
    from motorlite._operations.single_writes import SingleWrite


@pytest.mark.parametrize(
    "operation",
    [
        Update("db", "coll", update_statement({}, [{"$set": {}}]), write_concern=WriteConcern(0), comment=1),
        Delete("db", "coll", delete_statement({}), write_concern=WriteConcern(0), comment=1),
    ],
)
def test_the_first_unknown_option_is_named_with_both_releases(operation: SingleWrite) -> None:
    with pytest.raises(ConfigurationError) as caught:
        operation.command(V4_2)
    assert str(caught.value) == (
        "comment of an unacknowledged write needs MongoDB 4.4 (wire version 9), but db1.test:27017 is "
        "MongoDB 4.2 (wire version 8)"
    )


def test_the_default_write_concern_is_not_sent() -> None:
    operation = Delete("db", "coll", delete_statement({}), write_concern=WriteConcern())
    assert "writeConcern" not in sent(operation)
