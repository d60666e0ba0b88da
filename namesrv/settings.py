"""The settings of a NameServer: RocketMQ's names, and RocketMQ's values unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pocketmq.namesrv.networks import Networks
from pocketmq.service.errors import ServiceError


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvSettings:
    """Where a NameServer listens, what it keeps, and what it answers."""

    bind_address: str = "127.0.0.1"
    """The host to listen on; RocketMQ's is 0.0.0.0, which lets everybody in."""
    listen_port: int = 9876
    """The port; 0 is any that is free."""
    kv_config_path: str = "~/namesrv/kvConfig.json"
    """The file of the key-value configuration; empty keeps it in memory."""
    networks: Networks = field(default_factory=Networks)
    """Who is on which network, for brokers with an address for each: `net=rule,rule;net=rule`. Ours."""

    scan_not_active_broker_interval: int = 10_000
    """Milliseconds between two looks for brokers that have gone silent."""
    server_channel_max_idle_time_seconds: int = 120
    """Seconds without a byte after which a connection is closed."""
    delete_topic_with_broker_registration: bool = False
    """Whether topics go that their broker no longer names."""
    support_acting_master: bool = False
    """Whether clients see the lowest slave as the master while there is none and the broker allows it."""
    notify_min_broker_id_changed: bool = False
    """Whether brokers are told when the lowest id among them changes."""

    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    """Settings that must not be changed from outside, besides all that cannot be."""

    order_message_enable: bool = False
    """Whether routes tell the configuration of ordered topics."""
    return_order_topic_config_to_broker: bool = True
    """Whether brokers are told it when they register."""
    enable_topic_list: bool = True
    """Whether topics may be listed by cluster, unit or system."""
    enable_all_topic_list: bool = True
    """Whether all topics may be listed."""
    need_wait_for_service: bool = False
    """Whether routes are refused at first, so that brokers can register before clients ask."""
    wait_seconds_for_service: int = 45
    """For how many seconds."""

    def __post_init__(self) -> None:
        if not self.bind_address:
            raise ValueError("bindAddress is empty; write 0.0.0.0 to listen on all addresses")
        if not self.kv_config_path.isprintable():
            raise ValueError(f"kvConfigPath is no path that could be shown: {self.kv_config_path!r:.300}")
        if not 0 <= self.listen_port < 65536:
            raise ValueError(f"listenPort: {self.listen_port} is not from 0 to 65535")
        if not 1 <= self.scan_not_active_broker_interval <= _LONGEST_INTERVAL:
            raise ValueError(f"scanNotActiveBrokerInterval is from 1 to {_LONGEST_INTERVAL}")
        if self.server_channel_max_idle_time_seconds < 1:
            raise ValueError("serverChannelMaxIdleTimeSeconds is positive")

    @property
    def kv_config_file(self) -> Path | None:
        """The path, if there is one; raises `ServiceError` where nobody knows the home folder in it."""
        try:
            return Path(self.kv_config_path).expanduser() if self.kv_config_path else None
        except RuntimeError as error:
            problem = f"kvConfigPath: {self.kv_config_path!r:.300}: {error}"
            raise ServiceError(f"{problem}; write a path without ~, or nothing to keep it in memory") from None

    @property
    def changeable(self) -> frozenset[str]:
        """What may be changed from outside while the NameServer runs: nothing that names a path or an address."""
        return _CHANGEABLE - set(self.config_black_list.split(";"))


_LONGEST_INTERVAL: Final = 3_600_000  # an hour; what is changed meanwhile has its effect when it is over

_CHANGEABLE: Final = frozenset(
    {
        "deleteTopicWithBrokerRegistration",
        "enableAllTopicList",
        "enableTopicList",
        "needWaitForService",
        "notifyMinBrokerIdChanged",
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "scanNotActiveBrokerInterval",
        "supportActingMaster",
        "waitSecondsForService",
    }
)

WITHOUT_EFFECT: Final = frozenset(
    {
        "clientRequestThreadPoolNums",
        "clientRequestThreadPoolQueueCapacity",
        "clusterTest",
        "configStorePath",
        "defaultThreadPoolNums",
        "defaultThreadPoolQueueCapacity",
        "enableControllerInNamesrv",
        "enableShutdownGracefully",
        "productEnvName",
        "rocketmqHome",
        "serverAsyncSemaphoreValue",
        "serverCallbackExecutorThreads",
        "serverNettyWorkerGroupEnable",
        "serverOnewaySemaphoreValue",
        "serverPooledByteBufAllocatorEnable",
        "serverSelectorThreads",
        "serverSocketBacklog",
        "serverSocketRcvBufSize",
        "serverSocketSndBufSize",
        "serverWorkerThreads",
        "shutdownWaitTimeSeconds",
        "unRegisterBrokerQueueCapacity",
        "useEpollNativeSelector",
        "writeBufferHighWaterMark",
        "writeBufferLowWaterMark",
    }
)
"""Settings of RocketMQ's that mean nothing here, so that its files can be used as they are."""
