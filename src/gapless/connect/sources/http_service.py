"""An HTTP service that gives JSON: one request, sent again where that may help, and errors that show no secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urljoin, urlsplit

from gapless.connect.location import without_secrets
from gapless.errors import (
    AccessDenied,
    GaplessError,
    InvalidOption,
    ObjectNotFound,
    StoreUnavailable,
    UnreadableInput,
    shorten,
)
from gapless.files.ingest.json_records import load_json
from gapless.model.instant import ns_from_datetime
from gapless.model.protocols import Clock, IdSource
from gapless.tables.shared.library_errors import missing_library

if TYPE_CHECKING:
    from httpx import Client, Response

_LOGGER = logging.getLogger("gapless.connect")
_TRIES = 6
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_LONGEST_ASKED_S = 300.0
"""A service that asks to wait for longer is unavailable."""
_AGAIN = frozenset({408, 425, 429})
_DENIED = frozenset({401, 403, 407})
_GONE = frozenset({404, 410})


def check_request(url: str, params: object) -> None:
    """Raise InvalidOption for a URL that names no host, and for what is no part of a query. Values are not shown: they may be secrets."""
    try:
        host, _ = urlsplit(url).hostname, urlsplit(url).port
    except ValueError:
        host = None
    if not host:
        raise InvalidOption(
            f"the URL {without_secrets(url)!r} names no host",
            why="An HTTP service is asked at a host, perhaps with a port",
            fix="Pass such as 'https://api.example.com/trips'",
            option="url",
            value=None,
        )
    given = params if isinstance(params, Mapping) else {"params": params}
    for name, value in given.items():
        if not isinstance(params, Mapping) or type(value) not in (str, int, float):
            raise InvalidOption(
                f"params= has {name!r} of {type(value).__name__}",
                why="A query has a text for each name",
                fix='Pass texts, such as params={"kind": "a,b"}; what comes several times goes into the URL: "?kind=a&kind=b"',
                option="params",
                value=None,
            )


class _Again(Exception):
    """A request that may be sent again: what it will raise at last, and how long the service asks to wait."""

    def __init__(self, error: GaplessError, wait_s: float | None = None) -> None:
        super().__init__(error.what)
        self.error, self.wait_s = error, wait_s


@dataclass(slots=True, kw_only=True)
class HttpService:
    """What is asked."""

    url: str = field(repr=False)
    clock: Clock
    ids: IdSource
    headers: Mapping[str, str] = field(repr=False)
    params: Mapping[str, str] = field(repr=False)
    """Of the query; those of `url` itself are kept."""
    timeout_s: float
    _client: Client | None = field(default=None, repr=False)
    _trusted: SSLContext | None = field(default=None, repr=False)
    """Made once: to read all certificates takes longer than a request."""

    @property
    def place(self) -> str:
        """The URL as messages show it."""
        return without_secrets(self.url)

    def get(self, parameters: Mapping[str, str], link: str | None = None) -> tuple[object, str | None]:
        """The JSON of a page, and the URL of the next one where its `Link` header names it; None for an answer without content.

        `link` is the page's own URL, relative or not. Raises AccessDenied, ObjectNotFound, InvalidOption for a request that is refused,
        UnreadableInput for what is no JSON, StoreUnavailable.
        """
        url = self.url if link is None else self._same_host(urljoin(self.url, link))
        url, _, query = url.partition("?") if link is None else (url, "", "")
        asked: list[tuple[str, str | int | float | bool | None]] = (
            [*parse_qsl(query, keep_blank_values=True), *self.params.items(), *parameters.items()] if link is None else []
        )
        for number in range(_TRIES):
            try:
                return self._once(url, asked)
            except _Again as again:
                wait = _FIRST_WAIT_S * 2**number * (0.5 + self.ids.jitter() / 2) if again.wait_s is None else again.wait_s
                if number == _TRIES - 1 or wait > _LONGEST_ASKED_S:
                    raise again.error from again
                _LOGGER.info("%s: asked again in %.1f s: %s", self.place, min(wait, _LONGEST_WAIT_S), again.error.what)
                self.clock.sleep(wait if again.wait_s is not None else min(wait, _LONGEST_WAIT_S))
        raise AssertionError(number)

    def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            self._client.close()
        self._client = None

    # -- steps -----------------------------------------------------------------------------------------------------------

    def _once(self, url: str, params: list[tuple[str, str | int | float | bool | None]]) -> tuple[object, str | None]:
        client = self._connected()
        import httpx

        try:
            response = client.get(url, params=httpx.QueryParams(params) if params else None)
        except httpx.TransportError as error:
            raise _Again(
                StoreUnavailable(
                    f"{self.place} gave no answer: {type(error).__name__}: {self._shown(str(error))}",
                    why="The connection failed, was cut or took too long",
                    fix="Check the network, then try again",
                    path=self.place,
                )
            ) from error
        if response.status_code == httpx.codes.NO_CONTENT:
            return None, None
        if not response.is_success:
            raise self._refused(response)
        try:
            return load_json(response.content, self.place), response.links.get("next", {}).get("url")
        except UnreadableInput as error:
            kind = response.headers.get("content-type", "")
            told = UnreadableInput(
                error.what,
                why=f"{error.why}. It is {kind or 'of no type'}, and begins with {shorten(response.text[:60])}",
                fix="Check the URL and headers=: a page to log in, say, is no JSON",
                source=self.place,
            )
            raise (told if "html" in kind else _Again(told)) from error

    def _refused(self, response: Response) -> Exception:
        status = response.status_code
        what = f"{self.place} answered {status} {response.reason_phrase}".rstrip()
        if status in _AGAIN or status >= 500:
            wait = self._asked_wait(response.headers.get("retry-after"))
            asked = "" if wait is None else f", and asks to wait {wait:.0f} s"
            error = StoreUnavailable(f"{what}{asked}", why="It is overloaded or broken", fix="Try again later", path=self.place)
            return _Again(error, wait)
        if status in _DENIED:
            return AccessDenied(
                what,
                why="The credentials are missing, wrong or expired, or may not read it",
                fix="Check headers=",
                path=self.place,
            )
        if status in _GONE:
            return ObjectNotFound(what, why="Nothing is there, or not any more", fix="Check the URL", path=self.place)
        if response.has_redirect_location:
            return InvalidOption(
                f"{what}, to {without_secrets(response.headers['location'])}",
                why="Headers may hold secrets, which no other address is sent",
                fix="Pass that URL, if it is the right one",
                option="url",
                value=self.place,
            )
        return InvalidOption(
            what,
            why="The service refuses the request",
            fix="Check params=, pagination= and the cursor's age",
            option="params",
            value=None,
        )

    def _asked_wait(self, text: str | None) -> float | None:
        """Seconds that a Retry-After asks to wait; None where it says nothing."""
        if text is None:
            return None
        if text.strip().isdecimal():
            return float(text)
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return None
        aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        return max(0.0, (ns_from_datetime(aware) - self.clock.now_ns()) / 1e9)

    def _same_host(self, url: str) -> str:
        ours, theirs = urlsplit(self.url), urlsplit(url)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            raise UnreadableInput(
                f"{self.place} names a next page at {without_secrets(f'{theirs.scheme}://{theirs.netloc}')}",
                why="Headers may hold secrets, which no other address is sent",
                fix="Read that address by a source of its own",
                source=self.place,
            )
        return url

    def _shown(self, text: str) -> str:
        return " ".join(text.replace(self.url, self.place).split())[:200]

    def _connected(self) -> Client:
        if self._client is None:
            try:
                import httpx
            except ModuleNotFoundError as error:
                raise missing_library("HTTP services", "httpx", "http") from error
            if self._trusted is None:
                secure = urlsplit(self.url).scheme == "https"
                self._trusted = httpx.create_ssl_context() if secure else SSLContext(PROTOCOL_TLS_CLIENT)
            try:
                self._client = httpx.Client(
                    headers=dict(self.headers), timeout=self.timeout_s, follow_redirects=False, verify=self._trusted
                )
            except (TypeError, ValueError, AttributeError) as error:
                raise InvalidOption(
                    f"headers {sorted(map(str, self.headers))} cannot be sent",
                    why=type(error).__name__,
                    fix="Pass texts by names that are texts",
                    option="headers",
                    value=sorted(map(str, self.headers)),
                ) from None
        return self._client
