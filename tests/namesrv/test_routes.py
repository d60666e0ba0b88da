"""Who is registered and where topics are, by plain calls; `now` is a number that the tests choose."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from pocketmq.namesrv import registration as registrations
from pocketmq.namesrv import routes
from pocketmq.namesrv.registration import Registration, RegistrationError
from pocketmq.namesrv.routes import LeaderChange, Registered, Removed, RouteTable
from pocketmq.protocol.bodies import DataVersion, TopicQueues

FOUR, EIGHT = TopicQueues(4, 4, 6, 0), TopicQueues(8, 8, 6, 0)
READ_ONLY = FOUR._replace(perm=4)
FIRST, SECOND = DataVersion(counter=1, timestamp=1000), DataVersion(counter=2, timestamp=2000)
ONE, TWO, THREE = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
MASTER = Registration("c", "b", 0, ONE, {"T": FOUR}, FIRST, "10.0.0.1:10912")
SLAVE = MASTER._replace(broker_id=1, address=TWO, ha_address="10.0.0.2:10912")
ACTING = MASTER._replace(acting_master=True)
ACTING_SLAVE = SLAVE._replace(acting_master=True)
OTHER = MASTER._replace(broker_name="other", address=THREE, cluster="d")


class Table(RouteTable):
    """A table whose tests need not say who owns what and when it is."""

    def enter(self, registration: Registration, owner: object = None, now: float = 0, **options: Any) -> Registered:
        return self.register(registration, owner, now, **options)

    def again(self, registration: Registration, owner: object = None, now: float = 0) -> Registered | None:
        return self.renew(registration.broker_name, registration.broker_id, registration.fingerprint, owner, now)

    def addresses(self, broker_name: str = "b") -> dict[int, str]:
        broker = self.brokers.get(broker_name)
        return {} if broker is None else {id: member.address for id, member in broker.members.items()}

    def queues(self, topic: str, broker_name: str = "b") -> TopicQueues | None:
        return self.topics.get(topic, {}).get(broker_name)

    def snapshot(self) -> Any:
        return deepcopy((self.brokers, self.topics))


def table(*registered: Registration) -> Table:
    made = Table()
    for registration in registered:
        made.enter(registration)
    return made


# --- the first registration


def test_a_master_is_entered_with_its_topics() -> None:
    made = Table()
    assert made.enter(MASTER) == Registered(is_new=True)
    assert made.addresses() == {0: ONE}
    assert made.brokers["b"].cluster == "c"
    assert made.topics == {"T": {"b": FOUR}}
    assert repr(made) == "<RouteTable 1 brokers, 1 topics>"


def test_everything_a_member_tells_is_kept() -> None:
    made = Table()
    told = MASTER._replace(
        timeout=10, zone_name="z", filter_servers=(TWO,), networks={"lan": THREE}, acting_master=True, fingerprint=b"f"
    )
    made.enter(told, "connection", 7)
    broker, member = made.brokers["b"], made.brokers["b"].members[0]
    assert (broker.name, broker.cluster, broker.zone_name, broker.acting_master) == ("b", "c", "z", True)
    assert member == (ONE, "10.0.0.1:10912", 10, FIRST, (TWO,), {"lan": THREE}, b"f", "connection", 7)


def test_a_first_registration_may_have_one_topic_or_none() -> None:
    assert table(MASTER._replace(topics={})).addresses() == {0: ONE}
    assert table(MASTER).addresses() == {0: ONE}


def test_brokers_share_a_topic() -> None:
    made = table(MASTER, OTHER._replace(topics={"T": EIGHT}))
    assert made.topics == {"T": {"b": FOUR, "other": EIGHT}}


def test_one_address_may_belong_to_brokers_of_two_names() -> None:
    made = table(MASTER, OTHER._replace(address=ONE))
    assert made.addresses() == made.addresses("other") == {0: ONE}


def test_topics_with_impossible_names_are_left_out_and_reported() -> None:
    made = Table()
    mixed = MASTER._replace(topics={"T": FOUR, "no name": FOUR, "": FOUR})
    assert made.enter(mixed).misnamed == ("no name", "")
    assert made.enter(mixed).misnamed == ("no name", "")
    assert list(made.topics) == ["T"]


# --- registering again


def test_with_the_same_version_the_known_topics_stay_as_they_are() -> None:
    made = table(MASTER)
    assert made.enter(MASTER._replace(topics={"T": EIGHT}), now=5) == Registered()
    assert made.topics == {"T": {"b": FOUR}}
    assert made.brokers["b"].members[0].last_update == 5


@pytest.mark.parametrize(
    "version",
    [
        DataVersion(counter=2, timestamp=1000),
        DataVersion(counter=1, timestamp=1001),
        DataVersion(counter=1, timestamp=1000, state_version=1),
        DataVersion(counter=0, timestamp=0),
    ],
)
def test_with_another_version_older_or_newer_they_are_replaced(version: DataVersion) -> None:
    made = table(MASTER)
    made.enter(MASTER._replace(topics={"T": EIGHT}, data_version=version))
    assert made.topics == {"T": {"b": EIGHT}}


def test_no_state_version_is_the_same_as_zero() -> None:
    made = table(MASTER)
    zero = DataVersion(counter=1, timestamp=1000, state_version=0)
    made.enter(MASTER._replace(topics={"T": EIGHT}, data_version=zero))
    assert made.queues("T") == FOUR
    made.enter(MASTER._replace(topics={"T": EIGHT}))
    assert made.queues("T") == FOUR


def test_members_that_nobody_knows_make_no_other_version() -> None:
    made = table(MASTER)
    made.enter(
        MASTER._replace(topics={"T": EIGHT}, data_version=DataVersion(counter=1, timestamp=1000, extra={"x": 1}))
    )
    assert made.queues("T") == FOUR


def test_topics_missing_from_the_body_stay() -> None:
    made = table(MASTER)
    made.enter(MASTER._replace(topics={"U": EIGHT}, data_version=SECOND))
    assert made.topics == {"T": {"b": FOUR}, "U": {"b": EIGHT}}


def test_they_go_if_that_is_wished_and_nobody_elses_do() -> None:
    made = table(MASTER._replace(topics={"T": FOUR, "V": FOUR}), OTHER)
    made.enter(MASTER._replace(topics={"U": EIGHT, "V": EIGHT}), replace_topics=True)
    assert made.topics == {"T": {"other": FOUR}, "U": {"b": EIGHT}, "V": {"b": FOUR}}
    made.enter(MASTER._replace(topics={}), replace_topics=True)
    assert made.topics == {"T": {"other": FOUR}}


def test_a_slave_replaces_no_topics() -> None:
    made = table(MASTER, SLAVE)
    made.enter(SLAVE._replace(topics={}, data_version=SECOND), replace_topics=True)
    assert made.topics == {"T": {"b": FOUR}}


def test_an_unknown_topic_is_entered_though_the_version_is_the_same() -> None:
    made = table(MASTER, OTHER)
    made.delete_topic("T", "c")
    made.enter(MASTER._replace(topics={"T": EIGHT, "U": EIGHT}))
    assert made.topics == {"T": {"other": FOUR, "b": EIGHT}, "U": {"b": EIGHT}}


def test_a_restarted_broker_brings_its_topics_though_the_version_is_the_same() -> None:
    made = table(MASTER)
    made.unregister("b", ONE)
    assert made.enter(MASTER._replace(topics={"T": EIGHT})).is_new
    assert made.queues("T") == EIGHT


def test_a_broker_moves_to_the_cluster_of_its_latest_registration() -> None:
    made = table(MASTER)
    assert made.enter(MASTER._replace(cluster="d")) == Registered(left_cluster="c")
    assert made.brokers["b"].cluster == "d"
    assert made.enter(SLAVE) == Registered(is_new=True, left_cluster="d", master=made.brokers["b"].members[0])
    assert made.enter(SLAVE).left_cluster is None


# --- masters and slaves


def test_a_slave_enters_no_topics_and_is_told_of_its_master() -> None:
    made = table(MASTER)
    registered = made.enter(SLAVE._replace(topics={"T": EIGHT, "U": EIGHT}))
    assert registered == Registered(is_new=True, master=made.brokers["b"].members[0])
    assert registered.master is not None
    assert (registered.master.address, registered.master.ha_address) == (ONE, "10.0.0.1:10912")
    assert made.topics == {"T": {"b": FOUR}}


def test_a_slave_of_4_x_without_master_enters_nothing_either() -> None:
    made = Table()
    assert made.enter(SLAVE) == Registered(is_new=True)
    assert made.topics == {}


@pytest.mark.parametrize(("acting", "entered"), [(False, FOUR), (True, READ_ONLY)])
def test_the_lowest_slave_of_5_x_enters_its_topics_and_acting_as_master_only_to_read(
    acting: bool, entered: TopicQueues
) -> None:
    made = table(SLAVE._replace(acting_master=acting))
    assert made.topics == {"T": {"b": entered}}
    made.enter(SLAVE._replace(acting_master=acting, broker_id=2, address=THREE, topics={"U": EIGHT}))
    assert made.topics == {"T": {"b": entered}}


def test_an_acting_master_that_names_new_topics_names_them_to_be_read() -> None:
    made = table(ACTING_SLAVE)
    made.enter(ACTING_SLAVE._replace(topics={"T": EIGHT, "U": FOUR}, data_version=SECOND))
    assert made.topics == {"T": {"b": EIGHT._replace(perm=4)}, "U": {"b": READ_ONLY}}


def test_a_master_that_comes_back_may_be_written_to_again() -> None:
    made = table(ACTING_SLAVE)
    made.enter(ACTING)
    assert made.topics == {"T": {"b": FOUR}}


def test_a_topic_stays_as_it_is_while_a_slave_is_left_and_goes_with_the_last_member() -> None:
    made = table(MASTER, SLAVE)
    made.unregister("b", ONE)
    assert made.topics == {"T": {"b": FOUR}}
    made.unregister("b", TWO)
    assert (made.topics, made.brokers) == ({}, {})


def test_without_a_master_an_acting_one_leaves_topics_to_be_read() -> None:
    made = table(ACTING, ACTING_SLAVE, OTHER)
    made.unregister("b", ONE)
    assert made.topics == {"T": {"b": READ_ONLY, "other": FOUR}}


def test_a_slave_that_goes_changes_no_permission_while_there_is_a_master() -> None:
    made = table(ACTING, ACTING_SLAVE)
    made.unregister("b", TWO)
    assert made.topics == {"T": {"b": FOUR}}


def test_of_an_acting_broker_without_master_any_member_that_goes_takes_the_permission_to_write() -> None:
    made = table(ACTING, ACTING_SLAVE, ACTING_SLAVE._replace(broker_id=2, address=THREE))
    made.unregister("b", ONE)
    made.add_write_permission("b")
    made.unregister("b", THREE)
    assert made.queues("T") == READ_ONLY


# --- one address, one id


def test_a_slave_becomes_the_master() -> None:
    made = table(SLAVE)
    registered = made.enter(SLAVE._replace(broker_id=0, topics={"T": EIGHT}))
    assert not registered.is_new
    assert made.addresses() == {0: TWO}
    assert made.queues("T") == EIGHT


def test_a_master_becomes_a_slave_and_its_topics_stay() -> None:
    made = table(MASTER)
    assert made.enter(MASTER._replace(broker_id=1)) == Registered()
    assert made.addresses() == {1: ONE}
    assert made.topics == {"T": {"b": FOUR}}


def test_an_id_that_becomes_free_makes_the_topics_new() -> None:
    made = table(SLAVE, MASTER)
    made.unregister("b", ONE)
    made.enter(SLAVE._replace(broker_id=0, topics={"T": EIGHT}))
    assert made.queues("T") == EIGHT


def test_another_address_takes_over_a_name_and_id() -> None:
    made = table(MASTER)
    registered = made.enter(MASTER._replace(address=TWO, topics={"T": EIGHT}), "new")
    assert registered == Registered(is_new=True, replaced=ONE)
    assert made.addresses() == {0: TWO}
    assert made.queues("T") == EIGHT  # though the version is that of the one before
    assert made.heard_from("b", ONE, 1) is None
    assert made.unregister("b", ONE) is None


def test_a_slave_takes_over_from_a_master_that_is_registered_still() -> None:
    made = table(MASTER, SLAVE)
    registered = made.enter(SLAVE._replace(broker_id=0, topics={"T": EIGHT, "U": EIGHT}))
    assert registered == Registered(replaced=ONE)
    assert made.addresses() == {0: TWO}
    assert made.topics == {"T": {"b": FOUR}, "U": {"b": EIGHT}}  # its version is what it was as a slave


@pytest.mark.parametrize(("held", "brought"), [(2, 1), (1, None), (1, 0)])
def test_a_newcomer_is_ignored_if_the_holder_is_ahead(held: int, brought: int | None) -> None:
    made = table(MASTER._replace(data_version=DataVersion(state_version=held)), SLAVE)
    before = made.snapshot()
    newcomer = MASTER._replace(address=TWO, data_version=DataVersion(counter=9, state_version=brought), cluster="d")
    assert made.enter(newcomer, "new", 9) == Registered(holder=ONE)
    assert made.snapshot() == before


@pytest.mark.parametrize(("held", "brought"), [(1, 1), (1, 2), (None, None), (0, None), (None, 0)])
def test_a_newcomer_that_is_not_behind_takes_over(held: int | None, brought: int | None) -> None:
    made = table(MASTER._replace(data_version=DataVersion(state_version=held)))
    newcomer = MASTER._replace(address=TWO, data_version=DataVersion(state_version=brought))
    assert made.enter(newcomer).replaced == ONE
    assert made.addresses() == {0: TWO}


def test_a_member_may_fall_back_itself() -> None:
    made = table(MASTER._replace(data_version=DataVersion(state_version=2)))
    made.enter(MASTER._replace(data_version=DataVersion(state_version=1), topics={"T": EIGHT}))
    assert made.queues("T") == EIGHT


# --- the same again, without reading it


def marked(registration: Registration) -> Registration:
    """A registration with a fingerprint, as equal as the registration is."""
    return registration._replace(fingerprint=repr(registration).encode())


def test_an_equal_registration_renews_its_member() -> None:
    made = table(marked(MASTER))
    assert made.again(marked(MASTER), "new", 5) == Registered()
    assert made.brokers["b"].members[0][-2:] == ("new", 5)
    assert made.lost("old") == []


def test_a_slave_that_renews_is_told_of_its_master() -> None:
    made = table(MASTER, marked(SLAVE))
    registered = made.again(marked(SLAVE))
    assert registered is not None
    assert registered.master == made.brokers["b"].members[0]


@pytest.mark.parametrize(
    ("entered", "told"),
    [
        (marked(MASTER), marked(MASTER._replace(topics={}))),
        (marked(MASTER), MASTER),
        (MASTER, MASTER),
        (marked(MASTER), marked(SLAVE)),
        (marked(MASTER), marked(OTHER)),
    ],
    ids=["another", "no fingerprint now", "no fingerprint ever", "unknown id", "unknown name"],
)
def test_nothing_else_is_renewed(entered: Registration, told: Registration) -> None:
    made = table(entered)
    before = made.snapshot()
    assert made.again(told, "new", 5) is None
    assert made.snapshot() == before


@pytest.mark.parametrize(
    "event",
    [
        lambda made: made.delete_topic("T"),
        lambda made: made.delete_topic("T", "c"),
        lambda made: made.add_topic("U", {"b": FOUR}),
        lambda made: made.unregister("b", ONE),
        lambda made: made.lost("master"),
        lambda made: made.expire(121),
        lambda made: made.enter(MASTER._replace(broker_id=2)),
        lambda made: made.enter(marked(MASTER._replace(cluster="d"))),
        lambda made: made.enter(marked(MASTER._replace(zone_name="z"))),
        lambda made: made.enter(marked(ACTING)),
    ],
    ids=[
        "a topic is deleted",
        "it is in the cluster",
        "a topic is added",
        "the master unregisters",
        "its connection ends",
        "it is silent",
        "it becomes a slave",
        "it goes to another cluster",
        "it goes to another zone",
        "it acts",
    ],
)
def test_after_this_an_equal_registration_has_something_to_say_again(event: Callable[[Table], object]) -> None:
    slave = marked(SLAVE._replace(timeout=1000, acting_master=False))
    made = table(marked(MASTER))
    made.enter(MASTER, "master")
    made.enter(slave)
    assert made.again(slave) is not None
    event(made)
    assert made.again(slave) is None
    made.enter(slave)
    assert made.again(slave) is not None


def test_whoever_brought_that_about_is_renewed_itself() -> None:
    made = table(marked(MASTER), marked(SLAVE))
    made.enter(marked(MASTER._replace(cluster="d")))
    assert made.again(marked(MASTER._replace(cluster="d"))) is not None


def test_a_deleted_topic_comes_back_with_a_broker_that_has_it() -> None:
    made = table(marked(MASTER))
    made.delete_topic("T")
    assert made.again(marked(MASTER)) is None
    made.enter(marked(MASTER))
    assert made.topics == {"T": {"b": FOUR}}


def test_a_slave_that_leads_after_its_master_became_a_slave_brings_the_topics_that_it_has() -> None:
    slave = marked(SLAVE._replace(acting_master=False, topics={"T": EIGHT, "U": EIGHT}))
    made = table(MASTER._replace(acting_master=False), slave)
    made.enter(MASTER._replace(acting_master=False, broker_id=2))
    assert made.again(slave) is None
    made.enter(slave)
    assert made.topics == {"T": {"b": FOUR}, "U": {"b": EIGHT}}


def test_a_deleted_topic_of_another_cluster_stops_nobody_from_renewing() -> None:
    made = table(marked(MASTER), OTHER)
    made.delete_topic("T", "d")
    assert made.again(marked(MASTER)) is not None


# --- signs of life


def test_a_sign_of_life_says_the_version_and_keeps_the_member() -> None:
    made = table(MASTER)
    assert made.heard_from("b", ONE, 100) == FIRST
    assert made.expire(220) == []
    assert [removed.address for removed in made.expire(220.5)] == [ONE]


@pytest.mark.parametrize(("name", "address"), [("b", TWO), ("other", ONE), ("", "")])
def test_a_sign_of_life_of_nobody_is_answered_with_nothing(name: str, address: str) -> None:
    made = table(MASTER)
    before = made.snapshot()
    assert made.heard_from(name, address, 100) is None
    assert made.snapshot() == before


def test_a_sign_of_life_leaves_the_owner() -> None:
    made = Table()
    made.enter(MASTER, "old")
    made.heard_from("b", ONE, 1)
    assert len(made.lost("old")) == 1


# --- members go


def test_whoever_unregisters_is_gone() -> None:
    made = table(MASTER, OTHER)
    assert made.unregister("b", ONE) == Removed("b", 0, ONE, None)
    assert list(made.brokers) == ["other"]
    assert made.topics == {"T": {"other": FOUR}}
    assert made.unregister("b", ONE) is None


@pytest.mark.parametrize(("name", "address"), [("b", TWO), ("other", ONE)])
def test_nobody_unregisters_who_is_not_there(name: str, address: str) -> None:
    made = table(MASTER)
    before = made.snapshot()
    assert made.unregister(name, address) is None
    assert made.snapshot() == before


def test_whoever_owns_a_member_takes_it_along() -> None:
    made = Table()
    made.enter(MASTER, "one")
    made.enter(OTHER, "one")
    made.enter(SLAVE, "two")
    removed = made.lost("one")
    assert [(gone.broker_name, gone.broker_id, gone.address) for gone in removed] == [
        ("b", 0, ONE),
        ("other", 0, THREE),
    ]
    assert made.addresses() == {1: TWO}
    assert made.topics == {"T": {"b": FOUR}}
    assert made.lost("one") == []


def test_the_newer_owner_wins() -> None:
    made = Table()
    made.enter(MASTER, "old")
    made.enter(MASTER, "new")
    assert made.lost("old") == []
    assert made.addresses() == {0: ONE}
    assert len(made.lost("new")) == 1


def test_owners_are_told_apart_by_what_they_are() -> None:
    made = Table()
    made.enter(MASTER, [])
    assert made.lost([]) == []


@pytest.mark.parametrize("timeout", [120.0, 10.0, 0.5])
def test_a_member_may_be_silent_for_just_its_timeout(timeout: float) -> None:
    made = Table()
    made.enter(MASTER._replace(timeout=timeout), now=1000)
    assert made.expire(1000 + timeout) == []
    assert made.expire(1000 + timeout + 0.001) == [Removed("b", 0, ONE, None)]
    assert made.expire(5000) == []


def test_each_member_has_its_own_timeout() -> None:
    made = table(MASTER, SLAVE._replace(timeout=10))
    assert [gone.address for gone in made.expire(11)] == [TWO]
    assert [gone.address for gone in made.expire(121)] == [ONE]


def test_the_latest_timeout_counts() -> None:
    made = table(MASTER)
    made.enter(MASTER._replace(timeout=10))
    assert len(made.expire(11)) == 1


# --- who leads


def test_when_the_leader_goes_all_who_stay_are_told() -> None:
    made = table(MASTER, SLAVE, SLAVE._replace(broker_id=2, address=THREE))
    removed = made.unregister("b", ONE)
    assert removed is not None
    assert removed.leader_change == LeaderChange("b", 1, TWO, ONE, None, (TWO, THREE))


def test_when_another_goes_nobody_is_told() -> None:
    made = table(MASTER, SLAVE)
    assert made.unregister("b", TWO) == Removed("b", 1, TWO, None)


def test_when_several_go_those_who_stay_are_told_once_and_of_one_who_stays() -> None:
    third = SLAVE._replace(broker_id=2, address=THREE, timeout=1000)
    made = table(SLAVE, MASTER, third)
    assert made.expire(500) == [
        Removed("b", 1, TWO, None),
        Removed("b", 0, ONE, LeaderChange("b", 2, THREE, ONE, None, (THREE,))),
    ]


def test_when_all_go_there_is_nobody_to_tell() -> None:
    made = table(MASTER, SLAVE, OTHER)
    assert [removed.leader_change for removed in made.expire(500)] == [None, None, None]
    assert (made.brokers, made.topics) == ({}, {})


def test_a_newcomer_that_leads_is_told_to_the_others() -> None:
    made = table(SLAVE, SLAVE._replace(broker_id=2, address=THREE))
    change = made.enter(MASTER).leader_change
    assert change == LeaderChange("b", 0, ONE, None, "10.0.0.1:10912", (TWO, THREE))


def test_a_lone_slave_that_becomes_the_master_is_told_of_itself() -> None:
    made = table(SLAVE)
    change = made.enter(SLAVE._replace(broker_id=0)).leader_change
    assert change == LeaderChange("b", 0, TWO, None, "10.0.0.2:10912", (TWO,))


@pytest.mark.parametrize("registration", [MASTER, MASTER._replace(address=THREE), SLAVE, MASTER._replace(broker_id=2)])
def test_whoever_does_not_lower_the_lowest_id_is_told_to_nobody(registration: Registration) -> None:
    made = table(MASTER)
    assert made.enter(registration).leader_change is None


def test_the_first_member_is_told_to_nobody() -> None:
    assert Table().enter(SLAVE).leader_change is None


# --- permissions


def test_permissions_are_changed_for_all_topics_of_one_broker() -> None:
    made = table(MASTER._replace(topics={"T": FOUR, "U": EIGHT, "W": FOUR._replace(perm=2)}), OTHER)
    assert made.wipe_write_permission("b") == 3
    assert {topic: queues["b"].perm for topic, queues in made.topics.items()} == {"T": 4, "U": 4, "W": 0}
    assert made.queues("T", "other") == FOUR
    assert made.add_write_permission("b") == 3
    assert {topic: queues["b"].perm for topic, queues in made.topics.items()} == {"T": 6, "U": 6, "W": 6}
    assert made.queues("U") == EIGHT


def test_a_broker_that_is_not_there_has_no_permissions() -> None:
    made = table(MASTER)
    assert made.wipe_write_permission("other") == made.add_write_permission("other") == 0
    assert made.topics == {"T": {"b": FOUR}}


def test_other_bits_of_a_permission_stay_when_write_is_wiped() -> None:
    made = table(MASTER._replace(topics={"T": FOUR._replace(perm=0b1111)}))
    made.wipe_write_permission("b")
    assert made.topics["T"]["b"].perm == 0b1101


def test_what_was_wiped_stays_wiped_until_the_broker_changes_its_topics() -> None:
    made = table(marked(MASTER))
    made.wipe_write_permission("b")
    assert made.again(marked(MASTER)) is not None
    made.enter(marked(MASTER))
    assert made.queues("T") == READ_ONLY
    made.enter(MASTER._replace(data_version=SECOND))
    assert made.queues("T") == FOUR


# --- topics by hand


def test_a_topic_is_added_at_brokers_that_are_there() -> None:
    made = table(MASTER, OTHER)
    made.add_topic("U", {"b": FOUR, "other": EIGHT})
    made.add_topic("T", {"b": EIGHT})
    assert made.topics == {"T": {"b": EIGHT, "other": FOUR}, "U": {"b": FOUR, "other": EIGHT}}


def test_a_topic_at_no_broker_is_no_topic() -> None:
    made = table(MASTER)
    made.add_topic("U", {})
    made.add_topic("T", {})
    assert made.topics == {"T": {"b": FOUR}}


@pytest.mark.parametrize(
    ("topic", "broker_names", "problem"),
    [
        ("no name", ["b"], "'no name' is no name for a topic"),
        ("", [], "'' is no name for a topic"),
        ("U", ["b", "who"], "topic 'U': no broker 'who' is registered"),
    ],
)
def test_a_topic_that_is_refused_changes_nothing(topic: str, broker_names: list[str], problem: str) -> None:
    made = table(MASTER)
    before = made.snapshot()
    with pytest.raises(RegistrationError, match=problem):
        made.add_topic(topic, dict.fromkeys(broker_names, FOUR))
    assert made.snapshot() == before


def test_a_topic_is_deleted_everywhere() -> None:
    made = table(MASTER, OTHER._replace(topics={"T": FOUR, "U": FOUR}))
    made.delete_topic("T")
    assert made.topics == {"U": {"other": FOUR}}
    assert list(made.brokers) == ["b", "other"]


def test_a_topic_is_deleted_in_one_cluster() -> None:
    made = table(MASTER, OTHER)
    made.delete_topic("T", "nowhere")
    assert made.topics == {"T": {"b": FOUR, "other": FOUR}}
    made.delete_topic("T", "d")
    assert made.topics == {"T": {"b": FOUR}}
    made.delete_topic("T", "c")
    assert made.topics == {}


def test_deleting_what_is_not_there_does_nothing() -> None:
    made = table(MASTER)
    made.delete_topic("U")
    made.delete_topic("U", "c")
    assert made.topics == {"T": {"b": FOUR}}


# --- refusals and limits


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "a b"},
        {"broker_name": ""},
        {"broker_id": -1},
        {"address": "nowhere"},
        {"ha_address": "nowhere"},
        {"networks": {"lan": "nowhere"}},
        {"filter_servers": ("nowhere",)},
        {"zone_name": ","},
    ],
)
def test_a_registration_that_is_refused_changes_nothing(changes: dict[str, Any]) -> None:
    made = table(MASTER, SLAVE, OTHER)
    before = made.snapshot()
    for registration in (MASTER, SLAVE, MASTER._replace(broker_name="new")):
        with pytest.raises(RegistrationError):
            made.enter(registration._replace(topics={"U": EIGHT}, data_version=SECOND, **changes), replace_topics=True)
        assert made.snapshot() == before


def test_too_many_topics_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrations, "MAX_TOPICS", 1)
    made = table(MASTER)
    before = made.snapshot()
    with pytest.raises(RegistrationError, match="registers 1 topics at most, and not 2"):
        made.enter(MASTER._replace(topics={"T": EIGHT, "U": EIGHT}, data_version=SECOND))
    assert made.snapshot() == before


def test_members_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_MEMBERS", 2)
    made = table(MASTER, SLAVE)
    before = made.snapshot()
    for another in (OTHER, SLAVE._replace(broker_id=2, address=THREE)):
        with pytest.raises(RegistrationError, match="the limit of 2 registered brokers is reached"):
            made.enter(another)
        assert made.snapshot() == before
    made.enter(MASTER)
    made.enter(SLAVE._replace(address=THREE))
    made.enter(SLAVE._replace(address=THREE, broker_id=2))
    assert made.addresses() == {0: ONE, 2: THREE}
    made.unregister("b", ONE)
    made.enter(OTHER)


def test_routes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MAX_ROUTES", 2)
    made = table(MASTER, OTHER)
    before = made.snapshot()
    with pytest.raises(RegistrationError, match="1 topics more of 'b' pass the limit of 2 routes"):
        made.enter(MASTER._replace(topics={"T": EIGHT, "U": EIGHT}, data_version=SECOND))
    assert made.snapshot() == before
    with pytest.raises(RegistrationError, match="the limit of 2 routes is reached"):
        made.add_topic("U", {"b": FOUR})
    assert made.snapshot() == before
    made.enter(MASTER._replace(topics={"T": EIGHT}, data_version=SECOND))
    made.unregister("other", THREE)
    made.add_topic("U", {"b": FOUR})
    assert made.topics == {"T": {"b": EIGHT}, "U": {"b": FOUR}}


def test_many_that_go_at_once_look_at_the_topics_once() -> None:
    looks = 0

    class Watched(dict[str, dict[str, TopicQueues]]):
        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

        def values(self) -> Any:
            nonlocal looks
            looks += 1
            return super().values()

    made = table(ACTING, *(ACTING_SLAVE._replace(broker_id=id, address=f"10.0.0.{id}:1") for id in range(2, 9)))
    for number in range(20):
        made.enter(MASTER._replace(broker_name=f"b{number}"))
    made.enter(ACTING_SLAVE._replace(timeout=1000))
    made.topics = Watched(made.topics)
    assert len(made.expire(500)) == 28
    assert looks == 2
    assert made.topics == {"T": {"b": READ_ONLY}}
