"""What exceptions of obstore mean, as StoreErrors."""

from __future__ import annotations

import re

from gapless.errors import (
    AccessDenied,
    GaplessError,
    InvalidPath,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from gapless.store.credentials import credentials_refused, no_credentials
from gapless.store.location import parse_location

_Meaning = tuple[type[GaplessError], str, str]
"""The error, why, and what to do."""

_EXISTS: _Meaning = (
    ObjectExists,
    "It was to be created, and a create replaces nothing",
    "Read what is there: it can be our own, sent twice",
)
_ABSENT: _Meaning = (ObjectNotFound, "Nothing is stored under this path", "Check the path")
_NO_KEY: _Meaning = (InvalidPath, "The service has no such keys", "Use other characters in the path")
_SILENT: _Meaning = (
    StoreUnavailable,
    "The service gave no usable answer, which does not say whether the effect took place",
    "Check the endpoint and the network, then look whether it is there",
)
_BY_NAME: dict[str, _Meaning] = {
    "AlreadyExistsError": _EXISTS,
    "PreconditionError": _EXISTS,
    "NotFoundError": _ABSENT,
    "FileNotFoundError": _ABSENT,
    "InvalidPathError": _NO_KEY,
    "ValueError": _NO_KEY,
    "PermissionDeniedError": (
        AccessDenied,
        "These credentials may not do that",
        "Check the credentials in storage_options or the environment, and the bucket's policy",
    ),
    "UnauthenticatedError": (
        AccessDenied,
        "The credentials are missing, wrong or expired",
        "Set them in storage_options (access_key_id, secret_access_key, …) or in the environment",
    ),
    "NotSupportedError": (
        StoreError,
        "The service or these storage options do not offer it",
        "Set conditional_put='etag' in storage_options, or use a service with conditional writes",
    ),
}
# Where the class of an exception says less than its text.
_BY_PHRASE: dict[str, _Meaning] = {
    "NoSuchBucket": (StoreError, "The bucket does not exist", "Check its name, region and endpoint, or make it"),
    "builder error": (
        StoreError,
        "The endpoint is plain http, or no URL",
        'Set allow_http="true" in storage_options if http is meant',
    ),
}

# What obstore says of a request that it sent more than once by itself.
_SENT_AGAIN = re.compile(r", after [1-9]\d* retries, max_retries")


def object_store_error(error: Exception, *, act: str, path: str, url: str) -> GaplessError:
    """The error of a store that says what an exception of obstore means; `act` is what was done, such as "writing"."""
    text = _text_of(error)
    # Credentials are asked for before a request is sent: it certainly took no effect, however often they were asked for.
    if refused := credentials_refused(parse_location(url).kind, text):
        return _denied(act, path, url, text, refused)
    phrased = next((meaning for phrase, meaning in _BY_PHRASE.items() if phrase in text), None)
    kind, why, fix = phrased or _BY_NAME.get(type(error).__name__, _SILENT)
    if act == "writing" and kind is not ObjectExists and _SENT_AGAIN.search(text):
        kind, why = (
            StoreUnavailable,
            f"{why}; but an earlier try of the same write got no usable answer and may have taken effect",
        )
    return kind(_what(act, path, url, text), why=why, fix=fix, path=path)


def _text_of(error: Exception) -> str:
    return str(error).partition("\n\nDebug source:")[0].strip()


def _what(act: str, path: str, url: str, text: str) -> str:
    return f"{act} {path!r} in {url} failed: {text.partition(chr(10))[0][:500]}"


def no_credentials_error(error: Exception, *, act: str, path: str, url: str) -> AccessDenied | None:
    """The error for a first request that failed since no credentials were found; None where it failed for another reason, or may have."""
    none = no_credentials(parse_location(url).kind, text := _text_of(error))
    return None if none is None else _denied(act, path, url, text, none)


def _denied(act: str, path: str, url: str, text: str, reason: tuple[str, str]) -> AccessDenied:
    return AccessDenied(_what(act, path, url, text), why=reason[0], fix=reason[1], path=path)
