"""Pure: why a difference is right: a row in a table of the project, and a condition that recognises its cases."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tests.differential.outcomes import Difference, Raised, is_same
from tests.differential.wire import GRID
from tests.live.oracle import RESULTS

Condition = Callable[[Difference], bool]

# The exceptions of arguments that are refused.
REFUSALS: Final = {"TypeError", "ValueError", "InvalidName"}
# What PyMongo raises by accident when an argument has a wrong type, and what it raises when it encodes one.
ACCIDENTS: Final = (
    *(
        "AttributeError",
        "KeyError",
        "IndexError",
        "NotImplementedError",
        "RuntimeError",
        "AssertionError",
        "SystemError",
    ),
    "error",
)
ENCODING: Final = ("OverflowError", "InvalidDocument", "UnicodeEncodeError")
# Values that PyMongo takes for None.
FALSE: Final = r"(False|0|\[\]|\(\)|\{\}|''|SON\(\)|SON\(\[\]\)|set\(\)|0\.0|RawBSONDocument\(b'.x05.*)"


# Arguments that PyMongo does not look at, or leaves to a server that does not always.
CHECKED: Final = (
    "skip|limit|batch_size|max_time_ms|maxTimeMS|max_commit_time_ms|max_staleness|sort|read_preference|requests.*|"
    "bypassDocumentValidation|nameOnly|authorizedDatabases|strength|caseLevel|"
    "return_key|show_record_id|allow_disk_use|metadata|chunk_size_bytes|filename|new_filename|min|max|background"
)


def refuses(difference: Difference) -> bool:
    """Whether motorlite refuses an argument, and so sends nothing."""
    outcome = difference.ours.outcome
    return isinstance(outcome, Raised) and bool(REFUSALS & set(outcome.classes)) and not difference.ours.commands


def theirs_raised(difference: Difference, *names: str) -> bool:
    """Whether PyMongo raises one of these exceptions, or any."""
    outcome = difference.theirs.outcome
    return isinstance(outcome, Raised) and (not names or outcome.name in names)


def _checked_before_it_is_sent(difference: Difference) -> bool:
    """The server refuses it too, or PyMongo after another command."""
    if is_same(difference.theirs.outcome, difference.ours.outcome):
        return theirs_raised(difference) and not difference.ours.commands
    is_refused = refuses(difference) or (ours("InvalidOperation")(difference) and not difference.ours.commands)
    return is_refused and theirs_raised(difference) and bool(difference.theirs.commands)


def _checked_and_named(difference: Difference) -> bool:
    return theirs_raised(difference, *ACCIDENTS) or (refuses(difference) and theirs_raised(difference, *ENCODING))


def _without(commands: tuple[Any, ...], names: set[str]) -> list[tuple[Any, ...]]:
    return [(flags, *(each for each in fields if each[0] not in names)) for flags, fields in commands]


def _only(names: set[str], calls: str = "") -> Condition:
    """Only these fields of commands differ, of methods that match."""

    def applies(difference: Difference) -> bool:
        one, other = (_without(side.commands, names) for side in (difference.theirs, difference.ours))
        return difference.is_of_wire and one == other and re.search(calls, difference.step) is not None

    return applies


def refused(names: str, values: str = ".*") -> Condition:
    """motorlite refuses an argument that PyMongo ignores, or takes for something else."""
    pattern = re.compile(rf"({names})(: | must be) ?.*not {values}(;|$)", re.DOTALL)

    def applies(difference: Difference) -> bool:
        return refuses(difference) and pattern.match(difference.ours.outcome.message) is not None

    return applies


def _kills_in_the_background(difference: Difference) -> bool:
    """The getMore fails with both. PyMongo kills the cursor before it raises, motorlite in the background."""
    kept = tuple(each for each in difference.theirs.commands if each[1][1][0] != "killCursors")
    return theirs_raised(difference) and difference.is_of_wire and _gets(kept) == _gets(difference.ours.commands)


def _of_the_chunks(difference: Difference) -> bool:
    """Only the sizes of the batches of chunks differ."""
    queries = [dict(each[1][1:]).get("find", "") for each in difference.ours.commands]
    return _only({"batchSize"})(difference) and any(str(each).endswith(".chunks") for each in queries)


def _keeps_both_keys(difference: Difference) -> bool:
    both = " again', "
    return (
        difference.is_of_wire
        and both in repr(difference.ours.commands)
        and both not in repr(difference.theirs.commands)
    )


def _looks_again(difference: Difference) -> bool:
    """For the message: whether there is no such file, or no such revision of it."""
    *first, last = difference.ours.commands or (None,)
    is_same_otherwise = difference.is_of_wire and tuple(first) == difference.theirs.commands
    return is_same_otherwise and theirs_raised(difference, "NoFile") and str(last[1][1][1]).endswith(".files")


def _of_two(difference: Difference) -> bool:
    """PyMongo asks for two documents where one is wanted, and so perhaps fewer times."""

    def asked(commands: tuple[Any, ...]) -> tuple[list[Any], set[Any]]:
        more = [each for each in commands if each[1][1][0] == "getMore"]
        return [each for each in commands if each not in more], {dict(each[1][1:]).get("batchSize") for each in more}

    (one, sizes), (other, wanted) = asked(difference.theirs.commands), asked(difference.ours.commands)
    is_asked = sizes | wanted and sizes <= {("int", 2)} and wanted <= {("int", 1)}
    return difference.is_of_wire and one == other and bool(is_asked)


def _of_a_wrong_size(difference: Difference) -> bool:
    """PyMongo takes True for 1.0."""
    outcome = difference.ours.outcome
    return isinstance(outcome, Raised) and "'create.size' is the wrong type" in outcome.message


def _sends_null(difference: Difference) -> bool:
    """PyMongo sends None as a value, and both fail for another reason."""
    one = [
        (flags, *(each for each in fields if each[1] is not None or each[0] == "lsid"))
        for flags, fields in difference.theirs.commands
    ]
    return difference.is_of_wire and one == _without(difference.ours.commands, set())


def _of_the_limit(difference: Difference) -> bool:
    """motorlite asks for no more documents than the limit leaves, PyMongo for more."""
    sizes = [
        [dict(each[1][1:]).get("batchSize", ("int", 0))[1] for each in side.commands if each[1][1][0] == "getMore"]
        for side in (difference.ours, difference.theirs)
    ]
    is_less = all(our <= their for our, their in zip(*sizes, strict=False))
    has_limit = "('limit', " in repr(difference.ours.commands[:1])
    return difference.is_of_wire and has_limit and is_less and _only({"batchSize"})(difference)


def _of_get_more(difference: Difference) -> bool:
    """Only the read preference of getMore commands differs."""
    return difference.is_of_wire and _gets(difference.theirs.commands) == _gets(difference.ours.commands)


def _gets(commands: tuple[Any, ...]) -> list[Any]:
    """Commands, those that get more without their read preference."""
    return [_without((each,), {"$readPreference"})[0] if each[1][1][0] == "getMore" else each for each in commands]


def _aborts_nothing(difference: Difference) -> bool:
    sent = [each[1][1][0] for each in difference.theirs.commands]
    return difference.is_of_wire and sent == ["abortTransaction"] and not difference.ours.commands


def _has(name: str) -> Condition:
    """PyMongo sends the same without a field; what comes of that may differ."""

    def applies(difference: Difference) -> bool:
        one, other = (_without(side.commands, {name}) for side in (difference.theirs, difference.ours))
        return one[:1] == other[:1] and difference.theirs.commands != difference.ours.commands

    return applies


def _starts_twice(difference: Difference) -> bool:
    """PyMongo sends one of the two."""
    field = "'startAtOperationTime'"
    return field in repr(difference.ours.commands) and field not in repr(difference.theirs.commands)


def _refused_by_the_server(difference: Difference) -> bool:
    """The hint itself is hidden: where PyMongo does not send it, it makes no difference."""
    is_refused = ours("OperationFailure", "WriteError", "BulkWriteError")(difference)
    return is_refused and difference.theirs.commands[:1] == difference.ours.commands[:1]


def _looks_for_its_chunks(difference: Difference) -> bool:
    """The same writes. Before them, PyMongo looks for a file and a chunk, motorlite for its last one after."""
    looks = ("find", "listIndexes")
    one, other = (
        [each for each in side.commands if each[1][1][0] not in looks or not str(each[1][1][1]).endswith(GRID)]
        for side in (difference.theirs, difference.ours)
    )
    if "chunk_size_bytes=Int64" in difference.step:  # motorlite stores an int
        return difference.is_of_wire and repr(one).replace("'Int64'", "'int'") == repr(other).replace(
            "'Int64'", "'int'"
        )
    return difference.is_of_wire and one == other


def _stops_early(difference: Difference) -> bool:
    sent = difference.ours.commands
    return difference.is_of_wire and difference.theirs.commands[: len(sent)] == sent


def _begins_late(difference: Difference) -> bool:
    """For motorlite, the transaction begins with a later command, or ends without one."""
    sent = [each[1][1][0] for each in difference.theirs.commands]
    ends = sent == ["commitTransaction"] and not difference.ours.commands
    begins = _only({"startTransaction", "readConcern"})(difference)
    return ends or (begins and "startTransaction" in repr(difference.ours.commands))


def _of_writes(difference: Difference) -> bool:
    """Only the time of the session differs, which PyMongo sends with what it knows to be a write."""
    return _only({"readConcern"})(difference) and "afterClusterTime" not in repr(difference.ours.commands)


def _of_an_id_that_is_none(difference: Difference) -> bool:
    one, other = (side.outcome for side in (difference.theirs, difference.ours))
    if not isinstance(one, tuple) or not isinstance(other, tuple) or {*one[:1], *other[:1]} != {"UpdateResult"}:
        return False
    name = RESULTS["UpdateResult"].index("matched_count") + 1
    return (one[name], other[name]) == (("int", 1), ("int", 0)) and (
        one[:name] + one[name + 1 :] == other[:name] + other[name + 1 :]
    )


def _of_other_classes(difference: Difference) -> bool:
    """Only the classes of documents differ, in a result or in the details of an exception."""
    errors = [side.outcome for side in (difference.theirs, difference.ours) if isinstance(side.outcome, Raised)]
    if errors and not (len(errors) == 2 and set(errors[0].classes) <= set(errors[1].classes)):
        return False
    outcomes = (side.outcome for side in (difference.theirs, difference.ours))
    one, other = (
        repr(each.facts if isinstance(each, Raised) else each).replace("'SON'", "'dict'") for each in outcomes
    )
    raw = re.compile(r"'RawBSONDocument', \d+")
    return not difference.is_of_wire and raw.sub("'dict'", one) == raw.sub("'dict'", other)


def _of_an_upserted_id(difference: Difference) -> bool:
    outcome = difference.theirs.outcome
    is_result = isinstance(outcome, tuple) and outcome[0] in (
        "UpdateResult",
        "BulkWriteResult",
        "ClientBulkWriteResult",
    )
    return is_result and "upserted" in repr(outcome) and _of_other_classes(difference)


def _opens_empty(difference: Difference) -> bool:
    """PyMongo reads no documents with the command that opens a cursor of raw batches."""
    one, other = (_documents(side.outcome) for side in (difference.theirs, difference.ours))
    return is_same(one, other) and "batchSize', ('int', 0)" in repr(difference.theirs.commands)


def _documents(batches: Any) -> Any:
    return batches if isinstance(batches, Raised) else [each for batch in batches[1:] for each in batch[1:]]


def says(words: str, condition: Condition = lambda _: True) -> Condition:
    """PyMongo's exception has a message with these words, and motorlite does not refuse the argument."""

    def applies(difference: Difference) -> bool:
        outcome = difference.theirs.outcome
        is_said = isinstance(outcome, Raised) and re.search(words, outcome.message) is not None
        return is_said and not refuses(difference) and condition(difference)

    return applies


def says_ours(words: str) -> Condition:
    """motorlite's exception has a message with these words, and PyMongo raises none."""

    def applies(difference: Difference) -> bool:
        outcome = difference.ours.outcome
        return isinstance(outcome, Raised) and words in outcome.message and not theirs_raised(difference)

    return applies


def _in_a_snapshot_session(difference: Difference) -> bool:
    """PyMongo looks at the session first."""
    outcome = difference.theirs.outcome
    return refuses(difference) and isinstance(outcome, Raised) and "in snapshot sessions" in outcome.message


def _server_is_old(difference: Difference) -> bool:
    """PyMongo looks at the server first."""
    return theirs_raised(difference, "InvalidOperation") and "server version 8" in difference.theirs.outcome.message


def _runs_again(difference: Difference) -> bool:
    """Of a cursor that failed to open, PyMongo says that it is empty."""
    if difference.step == "c.alive":
        return (difference.theirs.outcome, difference.ours.outcome) == (False, True)
    theirs_ends = difference.theirs.outcome == ("list",) or theirs_raised(difference, "StopAsyncIteration")
    sends_more = bool(difference.ours.commands) and not difference.theirs.commands  # of a query that has changed
    return theirs_ends and (isinstance(difference.ours.outcome, Raised) or sends_more)


def _is_at_its_end(difference: Difference) -> bool:
    """The cursor was closed, and PyMongo goes on with what it has received."""
    ends = difference.ours.outcome in (None, False, ("list",)) or ours("StopAsyncIteration")(difference)
    return ends and not theirs_raised(difference)


def _bypass(difference: Difference) -> bool:
    """PyMongo sends it with deletions too, or cannot encode it."""
    return theirs_raised(difference, "OperationFailure", "InvalidDocument", "OverflowError")


def _wrong_type(difference: Difference) -> bool:
    return (
        refuses(difference) and theirs_raised(difference, "ValueError") and difference.ours.outcome.name == "TypeError"
    )


def step(pattern: str, condition: Condition) -> Condition:
    """A condition for calls that match."""
    return lambda difference: re.search(pattern, difference.step, re.DOTALL) is not None and condition(difference)


def theirs(*names: str) -> Condition:
    """PyMongo raises one of these, and motorlite does not refuse the argument."""
    return lambda difference: theirs_raised(difference, *names) and not refuses(difference)


def ours(*names: str) -> Condition:
    """motorlite raises one of these."""
    return lambda each: isinstance(each.ours.outcome, Raised) and each.ours.outcome.name in names


# Rows: `what` in behaviour.toml, the code in exceptions.toml; and when each applies.
REASONS: Final[tuple[tuple[str, Condition], ...]] = (
    ("await coll.count_documents(5)", _checked_before_it_is_sent),
    ("await coll.insert_one({}, session=5)", _checked_and_named),
    ("coll.with_options(write_concern={})", refused("codec_options|read_preference|write_concern|read_concern", FALSE)),
    ("a limit that is not a number", refused("limit|skip|batchSize|batch_size|mask", r"(True|False|[\d.]+)")),
    ("coll.find(skip=-1)", refused(CHECKED)),
    ("AsyncMongoClient(readPreference=5)", _wrong_type),
    ("client.start_session(causal_consistency='x')", refused("snapshot|causal_consistency|ordered")),
    ("deleting a file while it is uploaded", step(r"bucket\.upload", _looks_for_its_chunks)),
    ("a transaction whose first command cannot be encoded", says("does not match any in-progress transactions")),
    ("a transaction whose first command cannot be encoded", step(r"abort_transaction\(", _aborts_nothing)),
    (
        "a transaction whose first command cannot be encoded",
        says("Transaction numbers are only allowed", _begins_late),  # of a standalone server
    ),
    ("a transaction whose first command cannot be encoded", lambda each: theirs_raised(each) and _begins_late(each)),
    (
        "a transaction whose first command cannot be encoded",  # nothing came after the commit: it is sent again
        step(r"commit_transaction\(", says("No transaction started", ours("OperationFailure"))),
    ),
    ("a cursor whose first command failed", step(r"\bc\b", _runs_again)),
    ("changing a cursor that was closed before it ran", step(r"\bc\.", ours("InvalidOperation"))),
    (
        "the class of the details of an error",
        lambda each: theirs_raised(each) and _of_other_classes(each),
    ),
    ("the collation of a change stream", step(r"watch\(.*collation=", _has("collation"))),
    ("the collation of a change stream", step(r"watch\(.*collation=", ours("InvalidDocument"))),
    ("a commit that fails and whose write concern cannot be satisfied", step("commit_", theirs("WriteConcernError"))),
    ("deleting files of GridFS by a name that none has", step("delete_by_name", _stops_early)),
    ("the documents left in a cursor when it is closed", step(r"\bc\.(alive|\w*next|to_list)| in c\]", _is_at_its_end)),
    (
        "the id of a cursor that was closed",
        step("^c.cursor_id == 0$", lambda each: (each.theirs.outcome, each.ours.outcome) == (False, True)),
    ),
    ("coll.find({}, 'a')", refused("projection")),
    ("coll.find([])", refused("filter", FALSE)),
    ("await coll.aggregate([], batchSize='x')", refused("batchSize")),
    ("an empty hint", step(r"hint(=|\()''", _refused_by_the_server)),
    ("an empty hint", refused("hint")),
    ("the direction of an index that drop_index does not find", refused("the direction of '.*'")),
    ("the definition of a search index that is no mapping", refused("definition|name|type")),
    ("max_await_time_ms that is negative", refused("max_await_time_ms")),
    ("w and wtimeout that are booleans", refused("w|wtimeout|j|fsync", "(True|False)")),
    ("drop_index of all", step("drop_index", refused("index_or_name"))),
    ("a comment that is false", step(rf"comment(=|\(){FALSE}", ours("InvalidDocument", "OverflowError"))),
    ("drop_collection of a name that cannot be", step("drop_collection", ours("InvalidName"))),
    ("None for an option", step(r"=None|\(None\)", theirs("TypeError", "ValueError"))),
    (
        "None for an option",
        step("=None", says("null|must be a number", lambda each: not isinstance(each.ours.outcome, Raised))),
    ),
    ("None for an option", step("=None", _sends_null)),
    ("the sort of find as a name", step(r"sort='", theirs("TypeError"))),
    ("a time limit that is not whole", says("maxTimeMS has non-integral value|integer or None, not <class 'float'>")),
    ("a time limit that is not whole", step(r"\d\.5\b", _only({"maxTimeMS"}))),
    ("two starts of a change stream", step("resume_after=", _starts_twice)),
    ("the hint of aggregate as pairs", step("aggregate", says("Hint must be a string or an object"))),
    ("bounds of an index as pairs", step(r"find\w*\(.*(min|max)=\[\(", says("Expected field"))),
    ("bounds of an index as pairs", step(r"find\w*\(.*(min|max)=\[\(", _only({"min", "max"}))),
    ("bounds of an index as a mapping", step(r"(min|max)\(", theirs("TypeError", "ValueError"))),
    ("the keys of drop_index as a mapping", step(r"drop_index\(", theirs("TypeError", "ValueError"))),
    ("count_documents with a limit of 0", step("count_documents", says("the limit must be positive"))),
    ("count_documents with a limit of 0", step(r"count_documents\(.*(skip|limit)=", _only({"pipeline"}))),
    ("a size that is not a number", step("create_collection", theirs("ValueError", "TypeError"))),
    ("a size that is not a number", step("create_collection", _of_a_wrong_size)),
    ("a size that is not a number", step("create_collection", ours("OverflowError"))),
    # The server shows the query.
    ("the batch size of a negative limit", says(r"limit=\d+( skip=\d+)?Tree: ", ours("OperationFailure"))),
    (
        "a value that cannot be encoded in a bulk write of the client",
        step(r"client\.bulk", _server_is_old),
    ),
    ("bypass_document_validation of deletions", step(r"bulk_write.*Delete.*bypass_document", _bypass)),
    ("the read preference of getMore", _of_get_more),
    ("the class of documents in later batches of cursor_command", step("cursor_command", _of_other_classes)),
    ("the class of an upserted id", _of_an_upserted_id),
    ("the class of the documents of list_indexes", step("list_indexes|index_information", _of_other_classes)),
    ("the batch size of raw batches with a limit", step("raw_batches", _of_the_limit)),
    ("the retries of a bulk write with an UpdateMany", _only({"txnNumber"}, r"coll\.bulk_write\(")),
    ("a getMore that fails kills the cursor at once", _kills_in_the_background),
    ("the first batch of raw batches", step("aggregate_raw_batches", _opens_empty)),
    ("a batch size of 1", step(r"aggregate|watch|\bc\.| in c\]", _of_two)),
    ("a key that a raw filter has twice, with a hint", step("RawBSONDocument.*hint=", _keeps_both_keys)),
    ("the queries of a download", step(r"bucket\.", _of_the_chunks)),
    ("the queries of a download", step(r"by_name\(.*revision=", _looks_again)),
    ("the let of a cursor that is cloned", step(r"clone\(\)", _has("let"))),
    ("an exhaust cursor in a transaction", says_ours("an exhaust cursor cannot be opened in a transaction")),
    ("the session's time in a write that command sends", step(r"db\.command\(", _of_writes)),
    ("the matched_count of an upsert whose id is None", _of_an_id_that_is_none),
    ("a pipeline that is a tuple", says("must be a list, not <class 'tuple'>|collation must be a dict")),
    (
        "a wrong option of a transaction in a snapshot session",
        step(r"(start|with)_transaction\(", _in_a_snapshot_session),
    ),
    ("explain of a query with a limit", step(r"find\(.*explain\(", _only({"explain"}))),
)


def reason(difference: Difference) -> str:
    """The row that explains a difference; empty if none does."""
    return next((row for row, applies in REASONS if applies(difference)), "")


def compare(steps: tuple[str, ...], theirs: list[Any], ours: list[Any]) -> tuple[Difference | None, list[str]]:
    """The first difference without a reason, and the rows of those with one.

    What follows a difference of results may differ because of it, so it is not compared; the same goes for commands
    that only one library sent.
    """
    rows: list[str] = []
    for position, (text, their, our) in enumerate(zip(steps, theirs, ours, strict=False)):
        if is_same(their.outcome, our.outcome) and their.commands == our.commands:
            continue
        found = Difference(position, text, their, our)
        row = reason(found)
        if not row:
            return found, rows
        rows.append(row)
        if not found.is_of_wire or len(their.commands) != len(our.commands):
            break
    return None, rows
