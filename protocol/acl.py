"""Signatures of requests: who sent a command, and that nobody changed its fields or its body.

The content that is signed is the values of all ext fields but `Signature`, in the order of their names, followed
by the body. Opaque, flag and remark are not covered. The signature is the base64 text of its HMAC-SHA1.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Collection, Mapping
from itertools import product

from pocketmq.protocol.command import Buffer

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"

_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


def signature_content(ext_fields: Mapping[str, str], body: Buffer = b"") -> bytes:
    """The bytes that a request's signature covers."""
    return _content(ext_fields, body, leave_out=())


def sign(secret: str, ext_fields: Mapping[str, str], body: Buffer = b"") -> str:
    """The signature of a request that already carries its access key."""
    return _signature(secret, signature_content(ext_fields, body))


def signed_fields(
    access_key: str,
    secret: str,
    ext_fields: Mapping[str, str],
    body: Buffer = b"",
    security_token: str | None = None,
) -> dict[str, str]:
    """The ext fields of a request with the sender's key, token and signature among them."""
    fields = {**ext_fields, ACCESS_KEY: access_key}
    if security_token is not None:
        fields[SECURITY_TOKEN] = security_token
    fields[SIGNATURE] = sign(secret, fields, body)
    return fields


def verify(secret: str, ext_fields: Mapping[str, str], body: Buffer = b"") -> bool:
    """Whether a request was signed with the secret.

    Go's client sends its token without signing it, and Java up to 4.9.3 does so with the mark of a query by unique
    key. What can be learnt from the time this takes is which of those fields the request has, nothing more.
    """
    uncovered = [name for name in (SECURITY_TOKEN, _UNIQUE_KEY_QUERY) if name in ext_fields]
    given = _utf8(ext_fields.get(SIGNATURE, ""))
    matches = False
    for leave_out in product(*((None, name) for name in uncovered)):
        expected = _signature(secret, _content(ext_fields, body, leave_out))
        matches |= hmac.compare_digest(expected.encode("ascii"), given)
    return matches


def _content(ext_fields: Mapping[str, str], body: Buffer, leave_out: Collection[str | None]) -> bytes:
    values = (ext_fields[name] for name in sorted(ext_fields) if name != SIGNATURE and name not in leave_out)
    return b"".join((_utf8("".join(values)), body))


def _signature(secret: str, content: bytes) -> str:
    return b64encode(hmac.digest(_utf8(secret), content, "sha1")).decode("ascii")


def _utf8(text: str) -> bytes:
    """Text as Java encodes it: a surrogate that has lost its partner becomes a question mark."""
    return text.encode("utf-8", "replace")
