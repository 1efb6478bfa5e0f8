"""Credentials of a bucket: whether options or environment name any, and what an exception of obstore says about them.

Where none are named, obstore asks the metadata service of a cloud's machine: that of EC2, Google or Azure. Elsewhere nobody answers there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gapless.store.location import Kind

_PREFIX = re.compile(r"^(?:aws|google|azure_storage|azure)_")
_NAMED: Mapping[str, frozenset[str]] = {
    "s3": frozenset({
        "access_key_id", "skip_signature", "web_identity_token_file", "container_credentials_relative_uri",
        "container_credentials_full_uri",
    }),
    "gs": frozenset({
        "service_account", "service_account_path", "service_account_key", "application_credentials", "bearer_token", "skip_signature",
    }),
    "az": frozenset({
        "account_key", "access_key", "client_secret", "sas_key", "sas_token", "token", "bearer_token", "federated_token_file",
        "use_azure_cli", "use_emulator", "skip_signature",
    }),
}  # fmt: skip

_METADATA = re.compile(
    r"Error performing (?:GET|PUT) (https?://[^/\s]+)"
    r"(?:/latest/api/token|/latest/meta-data/iam/security-credentials|/computeMetadata/v1/|/metadata/identity/oauth2/token)"
)
"""A request to a metadata service, by the three clouds' paths; the group is who was asked."""
_TOKEN = re.compile(
    r"Error performing token request|Error performing POST REDACTED|Error performing GET http://169\.254\.170\.2(?:3)?/"
)
"""A request to whom credentials are traded with: OAuth, AWS STS, the agents of ECS and EKS."""
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_HERE = (
    "Failed to read token file", "Failed to read EKS token file", "Error reading federated token file",
    "'az account get-access-token' command failed", "Missing SecretAccessKey", "Missing AccessKeyId",
)  # fmt: skip
"""What obstore says where credentials that are named cannot be had on this machine."""

_LOOKED: Mapping[str, str] = {
    "s3": "storage_options and the environment (AWS_ACCESS_KEY_ID, a web identity, a container's) name none; ~/.aws is not read",
    "gs": "storage_options, the environment (GOOGLE_SERVICE_ACCOUNT, GOOGLE_APPLICATION_CREDENTIALS) and "
    "~/.config/gcloud/application_default_credentials.json name none",
    "az": "storage_options and the environment (AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY, AZURE_CLIENT_ID and _SECRET) name none",
}
_PASS: Mapping[str, str] = {
    "s3": 'Pass storage_options={"access_key_id": …, "secret_access_key": …} or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY '
    "(`aws configure export-credentials --format env` prints those of a profile)",
    "gs": 'Pass storage_options={"service_account": path of a key file} or set GOOGLE_APPLICATION_CREDENTIALS',
    "az": 'Pass storage_options={"account_key": …}, or "sas_key", or set AZURE_STORAGE_ACCOUNT_KEY, or log in with `az login` and pass '
    '{"use_azure_cli": "true"}',
}
_PUBLIC = 'for a public bucket pass {"skip_signature": "true"}'


def are_named(kind: Kind, options: Mapping[str, str], environment: Iterable[str]) -> bool:
    """Whether one of the options, or a variable of these names, gives credentials to a kind of store, be they right or wrong.

    >>> are_named("s3", {"region": "eu-central-1"}, ["AWS_ACCESS_KEY_ID"]), are_named("s3", {}, ["AWS_REGION"])
    (True, False)
    """
    variables = (name for name in map(str.lower, environment) if _PREFIX.match(name))
    return any(_PREFIX.sub("", name.lower()) in _NAMED[kind] for name in (*options, *variables))


def credentials_refused(kind: Kind, text: str) -> tuple[str, str] | None:
    """Why there are no credentials and what to do, where the text of obstore's exception says that for certain: they cannot be read on
    this machine, or whoever gives them out said no. None for all else, no answer among them: that can come.
    """
    if any(phrase in text for phrase in _HERE):
        return "The credentials that are named cannot be had on this machine", _fix(kind)
    status = _STATUS.search(text)
    if status is None or not status[1].startswith("4") or status[1] in ("408", "429"):
        return None
    if asked := _METADATA.search(text):
        return _found_none(kind, asked[1], f"answered {status[1]}"), _fix(kind)
    if _TOKEN.search(text):
        return f"Who gives out credentials answered {status[1]} to those that are named", _fix(kind)
    return None


def no_credentials(kind: Kind, text: str) -> tuple[str, str] | None:
    """The same of a first request, where no metadata service answered: then this machine has none. After others, it can come back."""
    if refused := credentials_refused(kind, text):
        return refused
    asked = _METADATA.search(text)
    if asked is None or _STATUS.search(text):
        return None
    return _found_none(kind, asked[1], "did not answer"), _fix(kind)


def _found_none(kind: Kind, asked: str, answer: str) -> str:
    return f"No credentials were found: {_LOOKED[kind]}, and the metadata service of a cloud's machine ({asked}) {answer}"


def _fix(kind: Kind) -> str:
    return f"{_PASS[kind]}; {_PUBLIC}"
