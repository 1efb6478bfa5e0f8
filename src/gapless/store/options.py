"""Storage options: what obstore's clients may be told, checked before a client is made."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.errors import InvalidOption, nearest

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
