"""The world of the simulation itself: elections, rollback, transactions and change streams, without the driver."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulation.changes import HISTORY_LOST, open_stream
from tests.simulation.loop import SimulationLoop
from tests.simulation.replication import Disk, Replica, Role, WorldError
from tests.simulation.storage import Change, Storage
from tests.simulation.transactions import LIFETIME, Transactions
from tests.support.mongos.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("a", "b", "c")


class Cluster:
    """Three replicas on a virtual clock, between which links can be cut."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop = loop
        self.chance = Random(1)
        self.cut: set[str] = set()
        self.disks = {name: Disk() for name in NAMES}
        self.replicas = {name: self.boot(name) for name in NAMES}

    def boot(self, name: str) -> Replica:
        def send(peer: str, method: str, *arguments: Any) -> None:
            if not self.cut & {name, peer}:
                self.loop.call_later(0.001 * self.chance.random(), self.deliver, name, peer, method, arguments)

        return Replica(
            name,
            [peer for peer in NAMES if peer != name],
            self.disks[name],
            send=send,
            later=self.loop.call_later,
            now=self.loop.time,
            wall=self.loop.time,
            chance=Random(name),
            on_change=lambda _: None,
        )

    def deliver(self, source: str, peer: str, method: str, arguments: tuple[Any, ...]) -> None:
        if not self.cut & {source, peer}:
            getattr(self.replicas[peer], method)(*arguments)

    def run(self, seconds: float) -> None:
        self.loop.call_later(seconds, self.loop.stop)
        self.loop.run_forever()

    @property
    def primaries(self) -> list[Replica]:
        return [replica for replica in self.replicas.values() if replica.is_primary]

    @property
    def primary(self) -> Replica:
        (found,) = self.primaries
        return found


def document(number: int) -> Change:
    return Change("d.c", number, {"_id": number}, "insert")


def ids(storage: Storage) -> list[int]:
    return [each["_id"] for each in storage.scan("d.c", storage.last)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    loop = SimulationLoop()
    made = Cluster(loop)
    made.run(10)
    yield made
    loop.close()


def test_one_primary_is_elected_and_all_copy_its_log(cluster: Cluster) -> None:
    primary = cluster.primary
    index = primary.write([document(1)])
    cluster.run(2)
    assert {replica.commit for replica in cluster.replicas.values()} == {index}
    assert all(ids(replica.storage) == [1] for replica in cluster.replicas.values())


def test_a_lost_primary_is_replaced_in_a_newer_term(cluster: Cluster) -> None:
    old = cluster.primary
    cluster.cut = {old.name}
    cluster.run(10)
    assert old.role is Role.SECONDARY  # it knows that no majority hears it
    new = cluster.primary
    assert new.term > 0
    cluster.cut = set()
    cluster.run(10)
    assert len(cluster.primaries) == 1


def test_votes_that_are_lost_elect_nobody(cluster: Cluster) -> None:
    cluster.cut = set(NAMES)
    cluster.run(10)
    assert cluster.primaries == []
    cluster.cut = set()
    cluster.run(20)
    assert len(cluster.primaries) == 1


def test_what_no_majority_has_is_rolled_back(cluster: Cluster) -> None:
    old = cluster.primary
    old.write([document(1)])
    cluster.run(1)
    cluster.cut = {old.name}
    lost = old.write([document(2), document(1)])
    assert lost > old.commit
    cluster.run(10)
    cluster.primary.write([document(3)])
    cluster.run(1)
    assert ids(old.storage) == [1, 2]
    cluster.cut = set()
    cluster.run(10)
    assert old.rolled_back > 0
    assert all(ids(replica.storage) == [1, 3] for replica in cluster.replicas.values())


def test_a_candidate_with_an_old_log_gets_no_vote(cluster: Cluster) -> None:
    primary = cluster.primary
    behind = next(replica for replica in cluster.replicas.values() if not replica.is_primary)
    cluster.cut = {behind.name}
    primary.write([document(1)])
    cluster.run(1)
    other = next(each for each in cluster.replicas.values() if each not in (primary, behind))
    last = behind.storage.last
    other.ask_vote(behind.name, other.term + 5, last, behind.storage.term_at(last))
    assert other.disk.voted_for is None


def test_a_committed_entry_cannot_be_rolled_back(cluster: Cluster) -> None:
    with pytest.raises(WorldError):
        cluster.primary._roll_back(0)


def test_a_restarted_member_remembers(cluster: Cluster) -> None:
    cluster.primary.write([document(1)])
    cluster.run(1)
    name = cluster.primary.name
    disk = cluster.disks[name]
    again = cluster.boot(name)
    assert (again.term, again.commit, again.role) == (disk.term, disk.committed, Role.SECONDARY)
    assert ids(again.storage) == [1]


def test_versions_are_read_at_their_index() -> None:
    from bson.timestamp import Timestamp

    from tests.simulation.storage import Entry

    storage = Storage()
    for value in range(3):
        storage.append(Entry(1, Timestamp(1, value), [Change("d.c", 1, {"_id": 1, "n": value}, "update")]))
    storage.append(Entry(1, Timestamp(1, 9), [Change("d.c", 1, None, "delete")]))
    seen = [storage.document("d.c", 1, at) for at in range(5)]
    assert [each and each["n"] for each in seen] == [None, 0, 1, 2, None]
    assert storage.truncate(2) == 2
    assert storage.document("d.c", 1, storage.last) == {"_id": 1, "n": 1}
    assert storage.changed_at("d.c", 1) == 2


def test_the_first_writer_of_a_document_wins() -> None:
    storage = Storage()
    transactions = Transactions(storage)
    one, two = (transactions.begin(session, 1, 0, 0.0) for session in (b"1", b"2"))
    transactions.lock(b"1", one, "d.c", 5)
    with pytest.raises(CommandError) as caught:
        transactions.lock(b"2", two, "d.c", 5)
    assert caught.value.code == 112
    assert transactions.is_locked("d.c", 5)
    assert not transactions.expire(LIFETIME / 2)
    assert transactions.expire(LIFETIME * 2)
    assert not transactions.is_locked("d.c", 5)


def test_a_number_that_changed_nothing_still_ends_older_ones() -> None:
    """Drivers rely on it: no write of an older number can come later."""
    transactions = Transactions(Storage())
    transactions.supersede(b"1", 8)
    with pytest.raises(CommandError) as caught:
        transactions.supersede(b"1", 7)
    assert caught.value.code == 225
    transactions.clear()
    transactions.supersede(b"1", 7)


# --- change streams ---


def watching(cluster: Cluster, **options: Any) -> Any:
    """Open a change stream on the primary."""
    return open_stream(cluster.primaries[0], "db", b"", [{"$changeStream": options}])


def test_a_change_stream_resumes_as_far_back_as_the_history_goes(cluster: Cluster) -> None:
    cluster.run(10)
    primary = cluster.primaries[0]
    token = watching(cluster).position()["postBatchResumeToken"]
    for number in range(5):
        primary.write([Change("db.coll", number, {"_id": number}, "insert")])
    cluster.run(1)
    primary.storage.history = 5
    found = watching(cluster, resumeAfter=token).take(100)
    assert [event["documentKey"]["_id"] for event in found] == [0, 1, 2, 3, 4]
    primary.storage.history = 4
    with pytest.raises(CommandError) as lost:
        watching(cluster, resumeAfter=token)
    assert lost.value.code == HISTORY_LOST


def test_an_invalidated_change_stream_ends_and_another_starts_after_it(cluster: Cluster) -> None:
    cluster.run(10)
    stream = watching(cluster)
    stream.invalidate()
    assert stream.has_news()
    (event,) = stream.take(100)
    assert (event["operationType"], stream.is_exhausted) == ("invalidate", True)
    assert stream.position() == {"postBatchResumeToken": event["_id"]}
    with pytest.raises(CommandError, match="resumeAfter"):
        watching(cluster, resumeAfter=event["_id"])
    after = watching(cluster, startAfter=event["_id"])
    # Before the first change, only `startAfter` continues it as well.
    assert after.position() == {"postBatchResumeToken": event["_id"]}
    cluster.primaries[0].write([Change("db.coll", 1, {"_id": 1}, "insert")])
    cluster.run(1)
    assert [event["operationType"] for event in after.take(100)] == ["insert"]
    assert after.position() != {"postBatchResumeToken": event["_id"]}
