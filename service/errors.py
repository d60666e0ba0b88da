"""What keeps a program from running, told to whoever started it."""

from __future__ import annotations

from pocketmq.protocol.errors import PocketMQError


class ServiceError(PocketMQError):
    """A program cannot start or go on; the text names the cause and the next step."""


class SettingsError(ServiceError):
    """Settings that are unknown or cannot be read; the text has one line for each of them."""
