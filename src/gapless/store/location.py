"""Table locations (paths and URLs), storage options, object paths and byte ranges: parsed and checked before a client is made."""

# A path is taken literally: pathlib would fold '//' and drop slashes.
# ruff: noqa: PTH110, PTH111, PTH112

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_to_bytes

from gapless.errors import CorruptTable, InvalidOption, InvalidPath, ObjectChanged, nearest

Kind = Literal["local", "memory", "s3", "gs", "az"]

_SCHEMES: dict[str, Kind] = {
    "file": "local", "memory": "memory", "s3": "s3", "s3a": "s3", "r2": "s3", "gs": "gs", "gcs": "gs",
    "az": "az", "azure": "az", "abfs": "az", "abfss": "az",
}  # fmt: skip

# Two letters at least, so that the drive of a Windows path is no scheme.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_LOST_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/([^/].*)", re.DOTALL)
_AZURE_HOST = re.compile(r"([a-z0-9-]+)\.(?:dfs|blob)\.(core\.windows\.net|fabric\.microsoft\.com)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The place of a table."""

    kind: Kind
    url: str
    """As messages show it: an absolute path, or a URL without slashes at its end."""
    container: str = ""
    """Bucket or container; empty for a local path or memory."""
    path: str
    """An absolute local path, the name of a memory store, or what every key starts with ("" for a whole bucket)."""
    options: tuple[tuple[str, str], ...] = ()
    """What the URL itself says in the way of storage options: an Azure account."""
    service: Literal["", "r2"] = ""
    """Whose S3 API it is: Cloudflare's R2, or nothing of its own."""

    @property
    def name(self) -> str:
        """The last part of the path: what the table is called."""
        return self.path.rpartition("/")[2] or self.container or "table"


def parse_location(location: str | os.PathLike[str]) -> Location:
    """Read a path or URL. Raises InvalidPath.

    A plain path is taken literally, whatever characters it has, apart from a leading `~`; it is made absolute now, its
    symbolic links resolved. `file:` URLs are percent-decoded. In s3, r2, gs and az URLs all after the bucket is the key,
    literally (no percent-decoding, no query, no fragment), as these services' own tools read them.
    """
    text = os.fspath(location)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not text or "\0" in text:
        raise _invalid(text, "A table needs a place, by a path that is not empty and has no NUL", "Pass a path or a URL")
    if match := _URL.fullmatch(text):
        return _parse_url(text, match[1].lower(), match[2])
    if match := _LOST_SLASH.fullmatch(text):
        scheme = match[1].lower()
        if scheme == "file":
            return _local(_decoded(f"/{match[2]}"), text)
        if scheme in _SCHEMES:
            why = "A URL has two slashes after its scheme; pathlib.Path takes one away"
            raise _invalid(text, why, f"Pass the text {f'{match[1]}://{match[2]}'!r}, or './{text}' for a folder of that name")
    return _local(text, text)


def _parse_url(text: str, scheme: str, rest: str) -> Location:
    kind = _SCHEMES.get(scheme)
    if kind is None:
        hint = "Pass an s3://, gs:// or az:// URL" if scheme in ("http", "https") else nearest(scheme, _SCHEMES)
        raise _invalid(
            text, f"{scheme!r} is no scheme that a table can lie under", f"{hint} ('./{text}' is a folder of that name)"
        )
    if kind == "local":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost") or not slash:
            raise _invalid(
                text, "A file URL names an absolute path of this machine", "Write file:///absolute/path, or a plain path"
            )
        return _local(_decoded(slash + path), text)
    stripped = rest.rstrip("/")
    url = f"{text[: len(text) - len(rest)]}{stripped}"
    if kind == "memory":
        if not stripped:
            raise _invalid(text, "Tables in memory are told apart by their names", "Write memory://some-name")
        return Location(kind=kind, url=url, path=stripped)
    container, _, path = stripped.partition("/")
    if not container or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise _invalid(
            text, "It needs a bucket, and its key may have no empty, '.' or '..' part", f"Write {scheme}://bucket/folder"
        )
    options: tuple[tuple[str, str], ...] = ()
    if kind == "az" and "@" in container:
        container, options = _azure_account(text, container)
    service: Literal["", "r2"] = "r2" if scheme == "r2" else ""
    return Location(kind=kind, url=url, container=container, path=path, options=options, service=service)


def _azure_account(text: str, container: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Split `container@account.dfs.core.windows.net`."""
    name, _, host = container.partition("@")
    match = _AZURE_HOST.fullmatch(host.lower())
    if match is None or not name:
        why = "Before the path stands container@account.dfs.core.windows.net"
        raise _invalid(text, why, "Write that, or az://container/folder with account_name and endpoint in storage_options")
    fabric = (("use_fabric_endpoint", "true"),) if match[2].startswith("fabric") else ()
    return name, (("account_name", match[1]), *fabric)


def _local(path: str, given: str) -> Location:
    if path.startswith("~"):
        expanded = os.path.expanduser(path)
        if expanded == path:
            raise _invalid(given, "No home directory is known for it", f"Write './{path}' for a folder of that name")
        path = expanded
    try:
        root = os.path.realpath(os.fsdecode(os.fsencode(path)))
    except UnicodeEncodeError as error:
        raise _invalid(given, "It holds a character that no file name can hold", "Pass valid text") from error
    except FileNotFoundError as error:
        raise _invalid(given, "It is relative, and the working directory no longer exists", "Pass an absolute path") from error
    if os.path.exists(root) and not os.path.isdir(root):
        raise _invalid(given, f"{root!r} is a file, and a table is a folder", "Pass the folder of a table, or a new path")
    return Location(kind="local", url=root, path=root)


def _decoded(path: str) -> str:
    decoded = os.fsdecode(unquote_to_bytes(path))
    if "\0" in decoded:
        raise _invalid(path, "It holds a NUL, which no path can", "Leave %00 out")
    return decoded


def _invalid(path: str, why: str, fix: str) -> InvalidPath:
    return InvalidPath(f"{path!r} is no place for a table", why=why, fix=fix, path=path)


RETRY_OPTIONS = ("max_retries", "retry_timeout")
"""Ours by way of obstore's RetryConfig: tries after the first, and the seconds after which there are no more."""

_CLIENT = (
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
    "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
)  # fmt: skip

KNOWN: Mapping[str, tuple[str, ...]] = {
    "s3": (
        *_CLIENT, *RETRY_OPTIONS, "access_key_id", "secret_access_key", "session_token", "region", "default_region", "endpoint",
        "virtual_hosted_style_request", "conditional_put", "skip_signature", "unsigned_payload", "checksum_algorithm",
        "disable_tagging", "disable_bulk_delete", "request_payer", "s3_express", "server_side_encryption", "sse_kms_key_id",
        "sse_bucket_key_enabled", "sse_customer_key_base64", "role_arn", "role_session_name", "web_identity_token_file",
        "sts_endpoint", "metadata_endpoint", "imdsv1_fallback", "container_credentials_relative_uri",
    ),
    "gs": (
        *_CLIENT, *RETRY_OPTIONS, "service_account", "service_account_key", "application_credentials", "bearer_token",
        "base_url", "skip_signature",
    ),
    "az": (
        *_CLIENT, *RETRY_OPTIONS, "account_name", "account_key", "client_id", "client_secret", "tenant_id", "authority_host",
        "sas_key", "token", "endpoint", "use_emulator", "use_fabric_endpoint", "use_azure_cli", "msi_endpoint", "object_id",
        "msi_resource_id", "federated_token_file", "skip_signature", "disable_tagging",
    ),
}  # fmt: skip
"""By kind of store, the names that are suggested for one that obstore does not know (it knows a few more)."""


def check_options(options: Mapping[str, object]) -> dict[str, str]:
    """Storage options as text: booleans and whole numbers are spelled out. Raises InvalidOption for other values."""
    checked: dict[str, str] = {}
    for name, value in options.items():
        if not isinstance(value, str | int):
            raise InvalidOption(
                f"storage option {name!r} has the value {value!r}",
                why="Storage options are texts, as obstore reads them",
                fix='Pass a text, such as "true" or "30s"',
                option=name, value=value,
            )  # fmt: skip
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return checked


def refuse_options(options: Mapping[str, object] | None, url: str) -> None:
    """Raise InvalidOption where a place that has no options was given some."""
    for name, value in (options or {}).items():
        raise InvalidOption(
            f"storage option {name!r} was given for {url!r}",
            why="A local path and memory:// have no storage options",
            fix="Leave storage_options out, or pass an s3://, gs:// or az:// URL",
            option=name, value=value,
        )  # fmt: skip


def unknown_option(kind: str, url: str, names: Mapping[str, str]) -> InvalidOption:
    """The error for options of which obstore does not know one: the first that we do not know either."""
    name = next(
        (n for n in names if n.lower().removeprefix("aws_").removeprefix("azure_") not in KNOWN[kind]), next(iter(names))
    )
    return InvalidOption(
        f"storage option {name!r} is not known for {url}",
        why="Storage options go by obstore's names",
        fix=nearest(name, KNOWN[kind]),
        option=name, value=names[name],
    )  # fmt: skip


def retry_setting(options: Mapping[str, str], name: str, default: int) -> int:
    """A retry option as a whole number. Raises InvalidOption."""
    text = options.get(name, str(default))
    if not text.isdecimal():
        raise InvalidOption(
            f"{name}={text!r} is no whole number", fix=f'Pass a number, such as "{default}"', option=name, value=text
        )
    return int(text)


_UNFINISHED = re.compile(r"(?:.*/)?\.[0-9a-f]{16}\.tmp|_staged/probe-[0-9a-f]{32}", re.ASCII | re.DOTALL)


def check_path(path: str) -> str:
    """Give back the path of an object; raises InvalidPath where it could lie outside the store or be no object.

    A path is relative and `/`-separated, without NUL and without empty, `.` or `..` parts.

    >>> check_path("data/a b%20.parquet")
    'data/a b%20.parquet'
    """
    parts = path.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in path:
        raise InvalidPath(
            f"{path!r} names no object",
            why="An object's path is relative, '/'-separated, without NUL and without empty, '.' or '..' parts",
            fix="Give a path below the table root",
            path=path,
        )
    return path


def check_new_path(path: str) -> str:
    """Give back a path that an object may be written to; raises InvalidPath, also for the names of unfinished writes."""
    if is_unfinished(check_path(path).rpartition("/")[2]):
        raise InvalidPath(
            f"{path!r} may not be written",
            why="Names from '.' to '.tmp' are kept for writes that are not finished, which no listing shows",
            fix="Choose another name",
            path=path,
        )
    return path


def is_unfinished(name: str) -> bool:
    """Whether the last part of a path is the name of a write that was not finished."""
    return name.startswith(".") and name.endswith(".tmp")


def is_own_unfinished(path: str) -> bool:
    """Whether a path is that of a write which gapless began and has not finished: a temporary file on a disk, a probe of a store."""
    return _UNFINISHED.fullmatch(path) is not None


def content_etag(data: bytes | memoryview) -> str:
    """The etag of bytes in a store that names a state by what it holds.

    >>> content_etag(b"")
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    return hashlib.sha256(data).hexdigest()


def object_changed(path: str, url: str) -> ObjectChanged:
    """The error of a conditional replace that came too late."""
    return ObjectChanged(
        f"{path!r} in {url} is not what it was when it was read",
        why="It was to be replaced only if nobody had changed or removed it meanwhile",
        fix="Read what is there, which can be our own, sent twice; then decide again",
        path=path,
    )


def folder_prefix(folder: str) -> str:
    """What the paths of all objects in a folder start with: `folder` and one slash, or nothing for the root.

    Raises InvalidPath.

    >>> folder_prefix("data")
    'data/'
    """
    return f"{check_path(folder.rstrip('/'))}/" if folder.rstrip("/") else ""


def check_range(start: int, length: int | None) -> None:
    """Raise InvalidOption where no object could hold such a range: `length` is negative."""
    if length is not None and length < 0:
        raise InvalidOption(
            f"a range of {length} bytes from {start} is no range",
            why="A length counts bytes",
            fix="Pass a length of 0 or more, or None for all up to the end",
            option="length", value=length,
        )  # fmt: skip


def resolve_range(path: str, size: int, start: int, length: int | None) -> tuple[int, int]:
    """The half-open range `[begin, end)` in bytes that `start` and `length` mean in an object of `size` bytes.

    A negative `start` counts from the end; without `length` the range runs to the end. Raises CorruptTable where
    the object does not hold all of it.

    >>> resolve_range("a", 10, -4, 2)
    (6, 8)
    """
    begin = start if start >= 0 else size + start
    end = size if length is None else begin + length
    if not 0 <= begin <= end <= size:
        asked = f"from {start}" if length is None else f"{length} from {start}"
        raise truncated(path, f"bytes {asked} were asked of an object that has {size}")
    return begin, end


def truncated(path: str, found: str) -> CorruptTable:
    """The error for an object that is shorter than what points at it says; `found` is the fact in words."""
    return CorruptTable(
        f"{path!r} is truncated: {found}",
        why="Something wrote or copied it only in part, or what points into it belongs to another object",
        fix="Restore this file from a copy; reading on would give wrong rows",
        path=path,
    )
