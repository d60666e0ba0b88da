"""The route table against RocketMQ's tables, kept as plain dictionaries, under random registrations and losses.

The model differs from RocketMQ where the route table means to: a live entry belongs to a broker's name and an address,
and not to a cluster and an address; when another address takes over a name and id, the member before it is gone at
once; a broker is in the cluster of its latest registration; whoever is ignored keeps what it had.

The model reads every registration. The table is offered a renewal first, which may leave no trace of being one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pocketmq.namesrv.registration import Registration
from pocketmq.namesrv.routes import LeaderChange, Registered, Removed, RouteTable
from pocketmq.protocol.bodies import DataVersion, TopicQueues

NAMES = st.sampled_from(["a", "b"])
ADDRESSES = st.sampled_from(["h:1", "h:2", "h:3"])
CLUSTERS = st.sampled_from(["c", "c", "c", "d"])
TOPICS = st.sampled_from(["T", "U", "V"])
OWNERS = st.sampled_from(["one", "two", "three"])
QUEUES = st.builds(TopicQueues, st.integers(1, 3), st.just(4), st.sampled_from([2, 4, 6, 7]), st.just(0))
VERSIONS = st.builds(
    DataVersion, counter=st.integers(0, 1), state_version=st.sampled_from([None, 0, 1]), timestamp=st.just(1)
)
REGISTRATIONS = st.builds(
    Registration,
    cluster=CLUSTERS,
    broker_name=NAMES,
    broker_id=st.integers(0, 2),
    address=ADDRESSES,
    topics=st.dictionaries(TOPICS | st.just("no name"), QUEUES, max_size=3),
    data_version=VERSIONS,
    ha_address=ADDRESSES,
    timeout=st.sampled_from([5, 20]),
    acting_master=st.sampled_from([None, False, True]),
    zone_name=st.sampled_from([None, None, "z"]),
    filter_servers=st.just(()),
    networks=st.just({}),
    fingerprint=st.just(b""),
)


@dataclass
class Live:
    """A row of RocketMQ's brokerLiveTable."""

    last_update: float
    timeout: float
    data_version: DataVersion
    owner: str
    ha_address: str

    @property
    def version(self) -> tuple[int, int, int]:
        return self.data_version.counter, self.data_version.state_version or 0, self.data_version.timestamp


@dataclass
class Model:
    """RocketMQ's tables by RocketMQ's names."""

    replace_topics: bool = False
    topic_queue_table: dict[str, dict[str, TopicQueues]] = field(default_factory=dict)
    broker_addr_table: dict[str, dict[int, str]] = field(default_factory=dict)
    cluster_addr_table: dict[str, set[str]] = field(default_factory=dict)
    broker_live_table: dict[tuple[str, str], Live] = field(default_factory=dict)
    acting: dict[str, bool] = field(default_factory=dict)
    zones: dict[str, str | None] = field(default_factory=dict)

    def cluster_of(self, name: str) -> str | None:
        return next((cluster for cluster, names in self.cluster_addr_table.items() if name in names), None)

    def register(self, told: Registration, owner: str, now: float) -> Registered:
        name, id, address = told.broker_name, told.broker_id, told.address
        row = Live(now, told.timeout, told.data_version, owner, told.ha_address)
        before = dict(self.broker_addr_table.get(name, {}))
        previous = self.broker_live_table.get((name, address))
        holder = before.get(id)
        if holder not in (None, address) and self.broker_live_table[name, holder].version[1] > row.version[1]:
            return Registered(holder=holder)

        addresses = {other: at for other, at in before.items() if at != address}
        addresses[id] = address
        self.broker_addr_table[name] = addresses
        self.broker_live_table[name, address] = row
        if holder not in (None, address):
            del self.broker_live_table[name, holder]
        left_cluster = self.cluster_of(name)
        self.leave_cluster(name)
        self.cluster_addr_table.setdefault(told.cluster, set()).add(name)
        self.acting[name], self.zones[name] = told.acting_master is True, told.zone_name

        misnamed: list[str] = []
        if id == 0 or (told.acting_master is not None and id == min(addresses)):
            changed = id not in before or previous is None or previous.version != row.version
            misnamed = self.create_and_update(told, changed)
        master = addresses.get(0) if id else None
        leads = bool(before) and id < min(before)
        others = tuple(at for other, at in addresses.items() if other != id or len(addresses) == 1)
        return Registered(
            is_new=previous is None,
            replaced=None if holder == address else holder,
            left_cluster=None if left_cluster == told.cluster else left_cluster,
            misnamed=tuple(misnamed),
            master=master and (master, self.broker_live_table[name, master].ha_address),  # type: ignore[arg-type]
            leader_change=LeaderChange(name, id, address, None, told.ha_address, others) if leads else None,
        )

    def create_and_update(self, told: Registration, changed: bool) -> list[str]:
        name, misnamed = told.broker_name, []
        if self.replace_topics:
            self.drop_topics(name, [topic for topic in self.topic_queue_table if topic not in told.topics])
        for topic, queues in told.topics.items():
            if topic == "no name":
                misnamed.append(topic)
            elif changed or name not in self.topic_queue_table.get(topic, {}):
                perm = queues.perm & ~2 if told.broker_id and self.acting[name] else queues.perm
                self.topic_queue_table.setdefault(topic, {})[name] = queues._replace(perm=perm)
        return misnamed

    def heard_from(self, name: str, address: str, now: float) -> DataVersion | None:
        row = self.broker_live_table.get((name, address))
        if row is None:
            return None
        row.last_update = now
        return row.data_version

    def remove(self, members: list[tuple[str, str]]) -> set[Removed]:
        before = {name: dict(self.broker_addr_table[name]) for name, _ in members}
        for name, address in members:
            del self.broker_live_table[name, address]
            addresses = self.broker_addr_table[name]
            self.broker_addr_table[name] = {id: at for id, at in addresses.items() if at != address}
        for name in before:
            if not self.broker_addr_table[name]:
                self.drop_topics(name, list(self.topic_queue_table))
                self.leave_cluster(name)
                del self.broker_addr_table[name], self.acting[name], self.zones[name]
            elif self.acting[name] and 0 not in self.broker_addr_table[name]:
                self.change_permission(name, lambda perm: perm & ~2)
        return {
            Removed(name, id, address, self.new_leader(name, address) if id == min(before[name]) else None)
            for name, address in members
            for id, at in before[name].items()
            if at == address
        }

    def new_leader(self, name: str, gone: str) -> LeaderChange | None:
        if (left := self.broker_addr_table.get(name)) is None:
            return None
        return LeaderChange(name, min(left), left[min(left)], gone, None, tuple(left.values()))

    def leave_cluster(self, name: str) -> None:
        for names in self.cluster_addr_table.values():
            names.discard(name)
        self.cluster_addr_table = {cluster: names for cluster, names in self.cluster_addr_table.items() if names}

    def change_permission(self, name: str, change: Any) -> int:
        tables = [brokers for brokers in self.topic_queue_table.values() if name in brokers]
        for brokers in tables:
            brokers[name] = brokers[name]._replace(perm=change(brokers[name].perm))
        return len(tables)

    def drop_topics(self, name: str, topics: list[str]) -> None:
        for topic in topics:
            self.topic_queue_table.get(topic, {}).pop(name, None)
        self.topic_queue_table = {topic: brokers for topic, brokers in self.topic_queue_table.items() if brokers}


class RoutesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = RouteTable()
        self.model = Model()
        self.now = 0.0
        self.told: list[Registration] = []

    @initialize(replace_topics=st.booleans())
    def choose(self, replace_topics: bool) -> None:
        self.model.replace_topics = replace_topics

    # --- registering

    def register(self, registration: Registration, owner: str) -> None:
        told = registration._replace(fingerprint=repr(registration).encode())
        outcome = self.table.renew(told.broker_name, told.broker_id, told.fingerprint, owner, self.now)
        if outcome is None:
            outcome = self.table.register(told, owner, self.now, replace_topics=self.model.replace_topics)
        else:  # names that are left out are not mentioned again
            outcome = outcome._replace(misnamed=self.misnamed(told))
        master = outcome.master and (outcome.master.address, outcome.master.ha_address)
        assert in_any_order(outcome._replace(master=None)) == in_any_order(self.expect(told, owner, master))
        self.told.append(registration)

    def misnamed(self, told: Registration) -> tuple[str, ...]:
        ids = self.table.brokers[told.broker_name].members
        enters = told.broker_id == 0 or (told.acting_master is not None and told.broker_id == min(ids))
        return tuple(topic for topic in told.topics if topic == "no name") if enters else ()

    def expect(self, told: Registration, owner: str, master: object) -> Registered:
        expected = self.model.register(told, owner, self.now)
        assert master == expected.master
        return expected._replace(master=None)

    @rule(registrations=st.lists(REGISTRATIONS, min_size=1, max_size=3), owner=OWNERS)
    def register_something(self, registrations: list[Registration], owner: str) -> None:
        for registration in registrations:
            self.register(registration, owner)

    @precondition(lambda self: self.told)
    @rule(backs=st.lists(st.integers(0, 3), min_size=1, max_size=4), owner=OWNERS)
    def register_the_same_again(self, backs: list[int], owner: str) -> None:
        for back in backs:
            self.register(self.told[-1 - back % len(self.told)], owner)

    @precondition(lambda self: self.told)
    @rule(
        back=st.integers(0, 5), owner=OWNERS, other=REGISTRATIONS, kept=st.sets(st.sampled_from(Registration._fields))
    )
    def register_nearly_the_same_again(self, back: int, owner: str, other: Registration, kept: set[str]) -> None:
        last = self.told[-1 - back % len(self.told)]
        self.register(other._replace(**{name: getattr(last, name) for name in kept}), owner)

    @rule(name=NAMES, address=ADDRESSES)
    def hear(self, name: str, address: str) -> None:
        assert self.table.heard_from(name, address, self.now) == self.model.heard_from(name, address, self.now)

    @rule(seconds=st.integers(0, 8))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    # --- going

    @rule(name=NAMES, address=ADDRESSES)
    def unregister(self, name: str, address: str) -> None:
        removed = self.table.unregister(name, address)
        gone = [(name, address)] if (name, address) in self.model.broker_live_table else []
        self.agree([removed] if removed else [], gone)

    @rule(owner=OWNERS)
    def lose(self, owner: str) -> None:
        gone = [key for key, row in self.model.broker_live_table.items() if row.owner == owner]
        self.agree(self.table.lost(owner), gone)

    @rule()
    def expire(self) -> None:
        rows = self.model.broker_live_table.items()
        gone = [key for key, row in rows if row.last_update + row.timeout < self.now]
        self.agree(self.table.expire(self.now), gone)

    def agree(self, removed: list[Removed], gone: list[tuple[str, str]]) -> None:
        expected = self.model.remove(gone)
        assert len(removed) == len(expected)
        assert {in_any_order(one) for one in removed} == {in_any_order(one) for one in expected}

    # --- topics

    @rule(name=NAMES, write=st.booleans())
    def change_permission(self, name: str, write: bool) -> None:
        if write:
            assert self.table.add_write_permission(name) == self.model.change_permission(name, lambda perm: 6)
        else:
            assert self.table.wipe_write_permission(name) == self.model.change_permission(name, lambda perm: perm & ~2)

    @rule(topic=TOPICS, cluster=st.none() | CLUSTERS)
    def delete_topic(self, topic: str, cluster: str | None) -> None:
        self.table.delete_topic(topic, cluster)
        clusters = self.model.cluster_addr_table
        for name in set().union(*clusters.values()) if cluster is None else clusters.get(cluster, set()):
            self.model.drop_topics(name, [topic])

    @rule(topic=TOPICS, queues=QUEUES)
    def add_topic(self, topic: str, queues: TopicQueues) -> None:
        names = list(self.model.broker_addr_table)
        self.table.add_topic(topic, dict.fromkeys(names, queues))
        for name in names:
            self.model.topic_queue_table.setdefault(topic, {})[name] = queues

    # --- always

    @invariant()
    def topics_and_permissions_agree(self) -> None:
        assert self.table.topics == self.model.topic_queue_table

    @invariant()
    def brokers_agree(self) -> None:
        model = self.model
        assert {
            name: (
                broker.name,
                broker.cluster,
                broker.acting_master,
                broker.zone_name,
                {id: member.address for id, member in broker.members.items()},
            )
            for name, broker in self.table.brokers.items()
        } == {
            name: (name, model.cluster_of(name), model.acting[name], model.zones[name], addresses)
            for name, addresses in model.broker_addr_table.items()
        }

    @invariant()
    def members_agree(self) -> None:
        assert {
            (name, member.address): Live(
                member.last_update, member.timeout, member.data_version, str(member.owner), member.ha_address
            )
            for name, broker in self.table.brokers.items()
            for member in broker.members.values()
        } == self.model.broker_live_table

    @invariant()
    def nothing_hangs_in_the_air(self) -> None:
        assert all(broker.members for broker in self.table.brokers.values())
        assert all(self.table.topics.values())
        assert all(brokers.keys() <= self.table.brokers.keys() for brokers in self.table.topics.values())
        for broker in self.table.brokers.values():
            addresses = [member.address for member in broker.members.values()]
            assert len(addresses) == len(set(addresses))


Outcome = TypeVar("Outcome", Registered, Removed)


def in_any_order(outcome: Outcome) -> Outcome:
    change = outcome.leader_change
    return outcome._replace(leader_change=change and change._replace(to_tell=tuple(sorted(change.to_tell))))


TestRoutes = RoutesMachine.TestCase
TestRoutes.settings = settings(max_examples=300, stateful_step_count=50)
