"""Who is registered, and where topics are: the tables of a NameServer, without I/O and without a clock.

A *broker* is a name; its *members* are the processes that share it: a master, whose id is 0, and slaves. A member lives
from its registration until it unregisters, its connection ends, or it was silent for longer than its timeout. The
broker goes with its last member, and its routes with the broker; while a slave is left they stay, for reading.

Used by one thread. Times are seconds on whatever clock the caller has, as long as it is always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pocketmq.namesrv.registration import Registration, RegistrationError, check, check_name, is_name
from pocketmq.protocol.bodies import DataVersion, TopicQueues
from pocketmq.protocol.codes import Permission

MASTER: Final = 0
"""The id of a master; slaves have others."""

# Whoever reaches the port can register, and a mistake can do it in a loop: these are far more than a cluster has.
MAX_MEMBERS: Final = 4096
MAX_ROUTES: Final = 2_000_000

_WRITE: Final = int(Permission.WRITE)
_READ_AND_WRITE: Final = int(Permission.READ | Permission.WRITE)


class Member(NamedTuple):
    """A process that is registered."""

    address: str
    ha_address: str
    timeout: float
    data_version: DataVersion
    filter_servers: tuple[str, ...]
    networks: Mapping[str, str]
    fingerprint: bytes
    owner: object
    last_update: float

    def has_gone(self, now: float) -> bool:
        return self.last_update + self.timeout < now


@dataclass(slots=True)
class Broker:
    """The members that share a name."""

    name: str
    cluster: str
    acting_master: bool = False
    zone_name: str | None = None
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def shared(self) -> tuple[str, bool, str | None, int | None]:
        """What each member's registration has a say in."""
        return self.cluster, self.acting_master, self.zone_name, min(self.members, default=None)

    def at(self, address: str) -> int | None:
        """The id of the member with this address."""
        return next((id for id, member in self.members.items() if member.address == address), None)


class LeaderChange(NamedTuple):
    """The lowest id of a broker changed: what those who are to know are told."""

    broker_name: str
    lowest_id: int
    lowest_address: str
    gone_address: str | None
    ha_address: str | None
    to_tell: tuple[str, ...]


class Registered(NamedTuple):
    """What came of a registration."""

    is_new: bool = False
    replaced: str | None = None
    """The address that the name and id belonged to before."""
    holder: str | None = None
    """The address that the name and id belong to still: it is ahead of the newcomer, who was ignored."""
    left_cluster: str | None = None
    """The cluster that the broker belonged to before."""
    misnamed: tuple[str, ...] = ()
    """Topics that were left out, because no client could have used their names."""
    master: Member | None = None
    """The master, for a slave."""
    leader_change: LeaderChange | None = None


class Removed(NamedTuple):
    """A member that is no longer registered."""

    broker_name: str
    broker_id: int
    address: str
    leader_change: LeaderChange | None


class RouteTable:
    """The tables; see the module's text. Queries read `brokers` and `topics`, and nobody else writes them."""

    def __init__(self) -> None:
        self.brokers: dict[str, Broker] = {}
        self.topics: dict[str, dict[str, TopicQueues]] = {}
        """topic -> broker name -> its queues there."""

    def __repr__(self) -> str:
        return f"<RouteTable {len(self.brokers)} brokers, {len(self.topics)} topics>"

    # --- members come

    def register(
        self, registration: Registration, owner: object, now: float, *, replace_topics: bool = False
    ) -> Registered:
        """Enter a member and, for a master, its topics; those it no longer names stay unless `replace_topics`.

        Raises `RegistrationError`, and nothing has changed.
        """
        check(registration)
        name, id, address = registration.broker_name, registration.broker_id, registration.address
        broker = self.brokers.get(name) or Broker(name, registration.cluster)
        holder, known_as = broker.members.get(id), broker.at(address)
        if holder is not None and holder.address != address and _is_ahead(holder, registration):
            return Registered(holder=holder.address)

        known = None if known_as is None else broker.members[known_as]
        changed = (
            holder is None or known is None or version_of(known.data_version) != version_of(registration.data_version)
        )
        unknown = [topic for topic in registration.topics if name not in self.topics.get(topic, ())]
        self._check_room(broker, known_as is None and holder is None, len(unknown))

        member = _member(registration, owner, now)
        lowest_before, cluster_before, shared_before = min(broker.members, default=None), broker.cluster, broker.shared
        if known_as is not None and known_as != id:  # a slave became the master, or the other way round
            del broker.members[known_as]
        broker.members[id] = member
        broker.cluster, broker.zone_name = registration.cluster, registration.zone_name
        broker.acting_master = registration.acting_master is True
        self.brokers[name] = broker
        if broker.shared != shared_before:  # what the others told last has lost its effect, or has another now
            self._read_all_again([name])
            broker.members[id] = member

        misnamed: tuple[str, ...] = ()
        if id == MASTER or (registration.acting_master is not None and id == min(broker.members)):
            if replace_topics:
                self._drop_topics({name}, keep=registration.topics)
            read_only = id != MASTER and broker.acting_master
            misnamed = self._enter(registration, registration.topics if changed else unknown, read_only=read_only)
        leads = lowest_before is not None and id < lowest_before
        return Registered(
            is_new=known is None,
            replaced=holder.address if holder is not None and holder.address != address else None,
            left_cluster=cluster_before if cluster_before != broker.cluster else None,
            misnamed=misnamed,
            master=None if id == MASTER else broker.members.get(MASTER),
            leader_change=_leader_change(broker, None, registration.ha_address) if leads else None,
        )

    def renew(
        self, broker_name: str, broker_id: int, fingerprint: bytes, owner: object, now: float
    ) -> Registered | None:
        """What `register` does with a registration that is equal to the member's last one; None if it is not."""
        broker = self.brokers.get(broker_name)
        member = broker and broker.members.get(broker_id)
        if not broker or not member or not member.fingerprint or member.fingerprint != fingerprint:
            return None
        broker.members[broker_id] = member._replace(owner=owner, last_update=now)
        return Registered(master=None if broker_id == MASTER else broker.members.get(MASTER))

    def heard_from(self, broker_name: str, address: str, now: float) -> DataVersion | None:
        """A sign of life of a member; its data version as it was registered, None if it is not."""
        broker, id = self._find(broker_name, address)
        if broker is None:
            return None
        broker.members[id] = broker.members[id]._replace(last_update=now)
        return broker.members[id].data_version

    # --- members go

    def unregister(self, broker_name: str, address: str) -> Removed | None:
        """Remove the member with this address, if there is one."""
        broker, id = self._find(broker_name, address)
        return None if broker is None else self._remove([(broker, id)])[0]

    def lost(self, owner: object) -> list[Removed]:
        """Remove whoever registered last through a connection that has ended."""
        return self._remove_those(lambda member: member.owner is owner)

    def expire(self, now: float) -> list[Removed]:
        """Remove whoever was silent for too long."""
        return self._remove_those(lambda member: member.has_gone(now))

    def _remove_those(self, condemned: Callable[[Member], bool]) -> list[Removed]:
        return self._remove(
            [
                (broker, id)
                for broker in self.brokers.values()
                for id, member in broker.members.items()
                if condemned(member)
            ]
        )

    def _remove(self, members: Collection[tuple[Broker, int]]) -> list[Removed]:
        """However many go, all topics are looked at once, and who stays is told of the leader that stays."""
        brokers = {broker.name: broker for broker, _ in members}
        leaders = {name: min(broker.members) for name, broker in brokers.items()}
        went = [(broker, id, broker.members.pop(id).address) for broker, id in members]
        gone = {name for name, broker in brokers.items() if not broker.members}
        for name in gone:
            del self.brokers[name]
        self._drop_topics(gone)
        self._read_all_again(brokers.keys() - gone)
        read_only = {name for name in brokers.keys() - gone if _lacks_master(brokers[name])}
        self._change_permission(read_only, lambda perm: perm & ~_WRITE)
        return [
            Removed(
                broker.name,
                id,
                address,
                _leader_change(broker, address, None) if broker.members and id == leaders[broker.name] else None,
            )
            for broker, id, address in went
        ]

    # --- topics

    def add_topic(self, topic: str, queues: Mapping[str, TopicQueues]) -> None:
        """Enter one topic of brokers that are registered. Raises `RegistrationError`, and nothing has changed."""
        check_name("topic", topic)
        for broker_name in queues:
            if broker_name not in self.brokers:
                raise RegistrationError(f"topic {topic!r}: no broker {broker_name!r:.80} is registered")
        if self._routes() + len(queues) > MAX_ROUTES:
            raise RegistrationError(f"the limit of {MAX_ROUTES} routes is reached")
        if queues:
            self.topics.setdefault(topic, {}).update(queues)
            self._read_all_again(queues)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or what of it is in one cluster. A broker that still has it brings it back."""
        brokers = self.topics.get(topic, {})
        gone = [name for name in brokers if cluster is None or self.brokers[name].cluster == cluster]
        self._read_all_again(gone)
        for name in gone:
            del brokers[name]
        if not brokers:
            self.topics.pop(topic, None)

    def wipe_write_permission(self, broker_name: str) -> int:
        """Take the permission to write from all topics of a broker; the number of topics."""
        return self._change_permission({broker_name}, lambda perm: perm & ~_WRITE)

    def add_write_permission(self, broker_name: str) -> int:
        """Give all topics of a broker the permission to read and write; the number of topics."""
        return self._change_permission({broker_name}, lambda perm: _READ_AND_WRITE)

    def _change_permission(self, broker_names: Set[str], change: Callable[[int], int]) -> int:
        count = 0
        for brokers in self.topics.values() if broker_names else ():
            for name in brokers.keys() & broker_names:
                brokers[name] = brokers[name]._replace(perm=change(brokers[name].perm))
                count += 1
        return count

    def _enter(self, registration: Registration, topics: Iterable[str], *, read_only: bool) -> tuple[str, ...]:
        """Enter these topics; the names that were left out."""
        name, misnamed = registration.broker_name, []
        for topic in topics:
            queues = registration.topics[topic]
            if read_only:
                queues = queues._replace(perm=queues.perm & ~_WRITE)
            if (brokers := self.topics.get(topic)) is not None:
                brokers[name] = queues
            elif is_name(topic):
                self.topics[topic] = {name: queues}
            else:
                misnamed.append(topic)
        return tuple(misnamed)

    def _drop_topics(self, broker_names: Set[str], keep: Container[str] = ()) -> None:
        for topic, brokers in list(self.topics.items()) if broker_names else ():
            if topic not in keep:
                for name in brokers.keys() & broker_names:
                    del brokers[name]
                if not brokers:
                    del self.topics[topic]

    # --- inside

    def _find(self, broker_name: str, address: str) -> tuple[Broker | None, int]:
        """The broker and the id of the member with this address; no broker if there is none."""
        broker = self.brokers.get(broker_name)
        id = None if broker is None else broker.at(address)
        return (None, MASTER) if id is None else (broker, id)

    def _read_all_again(self, broker_names: Iterable[str]) -> None:
        """The next registration of these brokers has something to say, though it may be equal to the last one."""
        for name in broker_names:
            members = self.brokers[name].members
            members.update({id: member._replace(fingerprint=b"") for id, member in members.items()})

    def _check_room(self, broker: Broker, is_another: bool, more_routes: int) -> None:
        if is_another and sum(len(other.members) for other in self.brokers.values()) >= MAX_MEMBERS:
            raise RegistrationError(f"the limit of {MAX_MEMBERS} registered brokers is reached")
        if more_routes and self._routes() + more_routes > MAX_ROUTES:
            raise RegistrationError(
                f"{more_routes} topics more of {broker.name!r} pass the limit of {MAX_ROUTES} routes"
            )

    def _routes(self) -> int:
        return sum(map(len, self.topics.values()))


def _member(registration: Registration, owner: object, now: float) -> Member:
    return Member(
        registration.address,
        registration.ha_address,
        registration.timeout,
        registration.data_version,
        registration.filter_servers,
        registration.networks,
        registration.fingerprint,
        owner,
        now,
    )


def version_of(version: DataVersion) -> tuple[int, int, int]:
    """What decides whether two versions are the same. Brokers of 4.x have no state version."""
    return version.counter, version.state_version or 0, version.timestamp


def _is_ahead(holder: Member, registration: Registration) -> bool:
    return (holder.data_version.state_version or 0) > (registration.data_version.state_version or 0)


def _lacks_master(broker: Broker) -> bool:
    return broker.acting_master and MASTER not in broker.members


def _leader_change(broker: Broker, gone_address: str | None, ha_address: str | None) -> LeaderChange:
    """The brokers that stay are told who leads now; of a newcomer that leads, all others."""
    lowest = min(broker.members)
    everybody = gone_address is not None or len(broker.members) == 1
    to_tell = tuple(member.address for id, member in broker.members.items() if everybody or id != lowest)
    return LeaderChange(broker.name, lowest, broker.members[lowest].address, gone_address, ha_address, to_tell)
