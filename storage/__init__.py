"""A store of messages in RocketMQ's files: what a broker needs of it.

`verify` and `dump` are tools, and imported from the modules of these names. All else is private to the folder.
"""

from pocketmq.storage.cleaning import clean
from pocketmq.storage.config_files import ConfigFile
from pocketmq.storage.errors import (
    DiskFullError,
    FlushFailedError,
    IllegalMessageError,
    StorageError,
    StoreClosedError,
    StoreLockedError,
    StoreUnusableError,
)
from pocketmq.storage.layout import StorePaths
from pocketmq.storage.lookup import Boundary, IndexType
from pocketmq.storage.reading import ReadPlan, ReadRequest, ReadResult, ReadStatus
from pocketmq.storage.recovery import RecoveryReport
from pocketmq.storage.settings import FlushDiskType, StoreSettings
from pocketmq.storage.store import Appended, Arrival, Store
from pocketmq.storage.workers import Workers

__all__ = [
    "Appended",
    "Arrival",
    "Boundary",
    "ConfigFile",
    "DiskFullError",
    "FlushDiskType",
    "FlushFailedError",
    "IllegalMessageError",
    "IndexType",
    "ReadPlan",
    "ReadRequest",
    "ReadResult",
    "ReadStatus",
    "RecoveryReport",
    "StorageError",
    "Store",
    "StoreClosedError",
    "StoreLockedError",
    "StorePaths",
    "StoreSettings",
    "StoreUnusableError",
    "Workers",
    "clean",
]
