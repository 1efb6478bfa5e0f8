"""Buckets of Cloudflare R2 (`r2://bucket/key`): S3's API at an endpoint of the account. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gapless.errors import InvalidOption, nearest

ACCOUNT, JURISDICTION = "account_id", "jurisdiction"
"""Options that only `r2://` has."""
ACCOUNT_VARIABLE = "CLOUDFLARE_ACCOUNT_ID"
_ACCOUNT = re.compile("[0-9a-f]{32}", re.ASCII)
_JURISDICTIONS = ("default", "eu", "fedramp")
_REGION = "auto"
"""The one that R2 has."""
_ENDPOINT = "aws_endpoint_url_s3"
"""The one name under which no variable of the environment goes first."""
_ENDPOINTS = ("endpoint", "endpoint_url", "endpoint_url_s3")


def r2_options(url: str, given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The options of an S3 client for a bucket of R2, from those that were given for `url`.

    The endpoint is that of `account_id`, an option or the variable CLOUDFLARE_ACCOUNT_ID, in a `jurisdiction` ("eu", "fedramp") where the
    bucket lies in one; or `endpoint` as it is given. Raises InvalidOption where neither says it, or both.

    >>> r2_options("r2://b/t", {"account_id": "0123456789abcdef" * 2, "jurisdiction": "eu"}, {})["aws_endpoint_url_s3"]
    'https://0123456789abcdef0123456789abcdef.eu.r2.cloudflarestorage.com'
    """
    own = (ACCOUNT, JURISDICTION)
    options = {name: value for name, value in given.items() if name not in own and _plain(name) not in _ENDPOINTS}
    endpoint = next((value for name, value in given.items() if _plain(name) in _ENDPOINTS), None)
    options[_ENDPOINT] = endpoint or _endpoint(url, given, given.get(ACCOUNT) or environment.get(ACCOUNT_VARIABLE))
    if endpoint and (clashing := next((name for name in own if name in given), None)):
        raise InvalidOption(
            f"storage options 'endpoint' and {clashing!r} were both given for {url}",
            why="Each says where the bucket is",
            fix=f"Leave one out: of an account the endpoint is known, and an endpoint that you write needs no {clashing}",
            option=clashing,
            value=given[clashing],
        )
    regions = ("region", "default_region")
    return options if any(_plain(name) in regions for name in options) else {**options, "region": _REGION}


def _endpoint(url: str, given: Mapping[str, str], account: str | None) -> str:
    if not account:
        raise InvalidOption(
            f"{url} does not say whose account it is in",
            why="Buckets of R2 are reached at an endpoint of the account, and the URL has only the bucket",
            fix=f'Pass storage_options={{"{ACCOUNT}": …}} (on the dashboard of R2), set {ACCOUNT_VARIABLE}, or pass "endpoint"',
            option=ACCOUNT,
            value=None,
        )
    if _ACCOUNT.fullmatch(account.lower()) is None:
        raise InvalidOption(
            f"{ACCOUNT}={account!r} is no account of Cloudflare",
            why="That is 32 digits from 0 to f",
            fix=f"Copy it from the dashboard of R2; it is looked for in storage_options, then in {ACCOUNT_VARIABLE}",
            option=ACCOUNT,
            value=account,
        )
    jurisdiction = given.get(JURISDICTION, _JURISDICTIONS[0])
    if jurisdiction not in _JURISDICTIONS:
        raise InvalidOption(
            f"{JURISDICTION}={jurisdiction!r} is none of R2",
            why=f"Buckets lie in one of {', '.join(_JURISDICTIONS)}",
            fix=nearest(jurisdiction, _JURISDICTIONS),
            option=JURISDICTION,
            value=jurisdiction,
        )
    middle = "" if jurisdiction == _JURISDICTIONS[0] else f".{jurisdiction}"
    return f"https://{account.lower()}{middle}.r2.cloudflarestorage.com"


def _plain(name: str) -> str:
    return name.lower().removeprefix("aws_")
