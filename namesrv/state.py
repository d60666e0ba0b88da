"""What the requests of a NameServer are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pocketmq.namesrv.key_values import KeyValues
from pocketmq.namesrv.networks import Surroundings
from pocketmq.namesrv.routes import LeaderChange, Member, RouteTable
from pocketmq.namesrv.saving import Saver
from pocketmq.namesrv.settings import NamesrvSettings
from pocketmq.remoting.channel import Channel
from pocketmq.service.logs import Once


@dataclass(slots=True, kw_only=True)
class State:
    """The tables of one NameServer and what its requests need besides. Belongs to the trio thread."""

    settings: NamesrvSettings
    key_values: KeyValues
    saver: Saver
    now: Callable[[], float]
    started: float
    leader_changed: Callable[[LeaderChange], None]
    """Called when brokers are to be told that the lowest id among them is another."""
    routes: RouteTable = field(default_factory=RouteTable)
    surroundings: Surroundings = field(default_factory=Surroundings)
    once: Once = field(default_factory=Once)
    served: Counter[str] = field(default_factory=Counter)
    """How often each request was asked, by name."""
    connections: int = 0

    def why_not_ready(self) -> str | None:
        """Why routes are not told yet, if they are not."""
        wait = self.settings.wait_seconds_for_service if self.settings.need_wait_for_service else 0
        left = self.started + wait - self.now()
        return f"name server not ready: brokers may register for {left:.0f} s more" if left > 0 else None

    def teller(self, caller: Channel) -> Callable[[Member], str]:
        """What picks the address of a member that a caller can reach."""
        networks = self.settings.networks.of(caller.address[0], self.surroundings)
        if not networks:
            return _ordinary_address
        return lambda member: next(
            (member.networks[name] for name in networks if name in member.networks), member.address
        )


def _ordinary_address(member: Member) -> str:
    return member.address
