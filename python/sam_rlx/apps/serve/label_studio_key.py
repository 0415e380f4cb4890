"""The key with which images of a Label Studio server are asked for.

Label Studio has two kinds. The old one is sent as it is; servers may have switched it off, and from
version 1.23 on do so for new organizations, though they go on sending it to backends. A personal
access token is a JWT that is exchanged for a key of minutes.
"""

import base64
import binascii
import json
import os
import threading
from urllib.parse import SplitResult

from sam_rlx.apps.serve import fetch
from sam_rlx.errors import InvalidArgumentError

VARIABLE = "LABEL_STUDIO_API_KEY"
_EXCHANGE = "/api/token/refresh/"
_MAX_ANSWER = 1 << 20  # bytes
_UNAUTHORIZED = 401
_ADVICE = (
    "make a personal access token in Label Studio (Account & Settings, Personal Access Token) and "
    f"put it into {VARIABLE} before sam-rlx serve starts"
)


class Key:
    """The key of one server, from the environment or from what ``/setup`` brings."""

    def __init__(self, server: SplitResult, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._lock = threading.Lock()
        self._key = os.environ.get(VARIABLE)
        self._access: str | None = None  # of a personal access token

    def given(self, key: object) -> None:
        """Take the key that the server sends, unless the environment has one."""
        if isinstance(key, str) and key.isprintable() and VARIABLE not in os.environ:
            with self._lock:
                self._key, self._access = key, None

    def fetch(self, value: str, most: int) -> bytes:
        """Return a file of the server.

        Raises
        ------
        FetchError
            There is no such file, or the key is refused.
        """
        for is_last in (False, True):
            headers, exchanged = self._headers()
            try:
                return fetch.fetch(self._server, value, headers, most, self._seconds)
            except fetch.FetchError as error:
                if error.status != _UNAUTHORIZED:
                    raise
                if is_last or not exchanged:
                    raise fetch.FetchError(f"{error}: {_ADVICE}", error.status) from error
            with self._lock:  # it was one of minutes, which are over
                self._access = None
        raise AssertionError

    def _headers(self) -> tuple[dict[str, str], bool]:
        """Return what is sent, and whether it is of a personal access token."""
        with self._lock:
            key, access = self._key, self._access
        kind = _jwt_kind(key)
        if kind == "refresh" and key is not None:
            if access is None:
                access = self._exchanged(key)
                with self._lock:
                    self._access = access
            return {"Authorization": f"Bearer {access}"}, True
        if kind is not None:
            return {"Authorization": f"Bearer {key}"}, False
        return ({"Authorization": f"Token {key}"} if key else {}), False

    def _exchanged(self, key: str) -> str:
        body = json.dumps({"refresh": key}).encode()
        headers = {"Content-Type": "application/json"}
        try:
            answer = fetch.fetch(self._server, _EXCHANGE, headers, _MAX_ANSWER, self._seconds, body)
            access = json.loads(answer)["access"]
        except fetch.FetchError as error:
            if error.status != _UNAUTHORIZED:
                raise
            raise fetch.FetchError(f"{error}: {_ADVICE}", error.status) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                f"image: expected a key for the personal access token, found {error}"
            ) from error
        if not isinstance(access, str) or not access.isascii() or not access.isprintable():
            raise InvalidArgumentError("image: expected a key as text, found another value")
        return access


def _jwt_kind(key: str | None) -> str | None:
    """Return the kind of a JWT, "" if it tells none; None for another key."""
    parts = (key or "").split(".")
    if len(parts) != 3:
        return None
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return str(payload.get("token_type", "")) if isinstance(payload, dict) else None
