"""Requests that wait for their answers."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pocketmq.protocol.pending import PendingRequests


def test_a_waiter_is_found_by_its_number_once() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add(7, "seven")
    assert len(pending) == 1
    assert pending.pop(7) == "seven"
    assert pending.pop(7) is None
    assert len(pending) == 0


def test_an_answer_that_nobody_waits_for_has_no_waiter() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add(7, "seven")
    assert pending.pop(8) is None
    assert pending.pop(-7) is None
    assert len(pending) == 1


def test_numbers_rise_and_are_never_those_of_waiting_requests() -> None:
    pending: PendingRequests[str] = PendingRequests()
    assert [pending.next_opaque() for _ in range(3)] == [1, 2, 3]
    for opaque in (4, 5, 7):
        pending.add(opaque, "")
    assert [pending.next_opaque() for _ in range(2)] == [6, 8]


def test_numbers_begin_again_behind_the_largest_one() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending._last_opaque = 2**31 - 2
    pending.add(0, "from long ago")
    assert [pending.next_opaque() for _ in range(3)] == [2**31 - 1, 1, 2]


def test_the_earliest_deadline_is_that_of_whoever_waits() -> None:
    pending: PendingRequests[str] = PendingRequests()
    assert pending.earliest_deadline() == math.inf
    pending.add(1, "patient")
    assert pending.earliest_deadline() == math.inf
    pending.add(2, "late", 30.0)
    pending.add(3, "early", 10.0)
    assert pending.earliest_deadline() == 10.0
    pending.pop(3)
    assert pending.earliest_deadline() == 30.0


def test_those_whose_time_is_up_are_taken_out_in_the_order_they_came() -> None:
    pending: PendingRequests[str] = PendingRequests()
    for opaque, waiter, deadline in [(1, "a", 20.0), (2, "b", 10.0), (3, "c", 30.0), (4, "d", math.inf)]:
        pending.add(opaque, waiter, deadline)
    assert pending.expire(9.9) == []
    assert pending.expire(20.0) == ["a", "b"]
    assert pending.expire(20.0) == []
    assert pending.pop(1) is None
    assert pending.pop(3) == "c"
    assert len(pending) == 1


def test_a_lost_connection_gives_all_waiters_back() -> None:
    pending: PendingRequests[str] = PendingRequests()
    pending.add(1, "a", 5.0)
    pending.add(2, "b")
    assert pending.clear() == ["a", "b"]
    assert pending.clear() == []
    assert len(pending) == 0
    assert pending.next_opaque() == 1


class PendingAgreesWithADictionary(RuleBasedStateMachine):
    """Any sequence of calls, against the obvious thing."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: PendingRequests[int] = PendingRequests()
        self.model: dict[int, float] = {}

    @rule(deadline=st.floats(0, 100) | st.just(math.inf))
    def begin(self, deadline: float) -> None:
        opaque = self.pending.next_opaque()
        assert opaque not in self.model
        self.pending.add(opaque, opaque, deadline)
        self.model[opaque] = deadline

    @rule(opaque=st.integers(0, 12))
    def answer(self, opaque: int) -> None:
        assert (self.pending.pop(opaque) == opaque) == (self.model.pop(opaque, None) is not None)

    @rule(now=st.floats(0, 100))
    def expire(self, now: float) -> None:
        late = [opaque for opaque, deadline in self.model.items() if deadline <= now]
        assert self.pending.expire(now) == late
        for opaque in late:
            del self.model[opaque]

    @rule()
    def lose(self) -> None:
        assert self.pending.clear() == list(self.model)
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.pending) == len(self.model)
        assert self.pending.earliest_deadline() == min(self.model.values(), default=math.inf)


TestAnySequenceOfCalls = PendingAgreesWithADictionary.TestCase


@given(st.lists(st.integers(0, 2**31 - 1), max_size=20), st.integers(0, 2**31 - 1))
def test_a_number_is_31_bits_and_free(taken: list[int], last: int) -> None:
    pending: PendingRequests[None] = PendingRequests()
    pending._last_opaque = last
    for opaque in taken:
        pending.add(opaque, None)
    number = pending.next_opaque()
    assert 0 <= number < 2**31
    assert number not in taken
