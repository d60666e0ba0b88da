"""One frozen, typed header for each request and response that carries ext fields."""

from __future__ import annotations

from typing import NamedTuple


class NoFields(NamedTuple):
    """The header of what carries no ext fields."""
