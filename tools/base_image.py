"""Print the base image of the Dockerfile by its digest, as the registry has it now: ``python:3.11@sha256:...``.

The digest is that of the list of all architectures, so one name serves every machine. It is asked of the registry over
HTTPS, without Docker and without a login, and is taken from the content, not from what a header says.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from email.message import Message
from pathlib import Path
from typing import NamedTuple

from tools.install import ROOT

_TIMEOUT_SECONDS = 20
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Image(NamedTuple):
    """An image by tag. `name` is as in the Dockerfile; `repository` is its path at `registry`."""

    name: str
    registry: str
    repository: str
    tag: str


class Unreachable(Exception):
    """The registry gave no answer that names the image; the message says why."""


def default(dockerfile: str) -> str:
    """The default of the build argument `BASE`. Raises ValueError where there is none."""
    found = re.search(r"^ARG BASE=(\S+)$", dockerfile, re.MULTILINE)
    if found is None:
        raise ValueError("the Dockerfile has no ARG BASE=...")
    return found[1]


def parse(reference: str) -> Image:
    """An image by its name and tag, with Docker's rules for what is left out. Raises ValueError for one by digest."""
    if "@" in reference:
        raise ValueError(f"{reference} has a digest already")
    head, _, last = reference.rpartition("/")
    name, _, tag = last.partition(":")
    path = f"{head}/{name}" if head else name
    first, _, rest = path.partition("/")
    if rest and ("." in first or ":" in first or first == "localhost"):
        scheme = "http" if first.startswith(("localhost", "127.")) else "https"
        return Image(path, f"{scheme}://{first}", rest, tag or "latest")
    return Image(path, "https://registry-1.docker.io", path if rest else f"library/{path}", tag or "latest")


def resolve(image: Image) -> str:
    """The image by its digest. Raises Unreachable."""
    url = f"{image.registry}/v2/{image.repository}/manifests/{image.tag}"
    try:
        try:
            body = _get(url)
        except urllib.error.HTTPError as refused:
            if refused.code != 401:
                raise
            body = _get(url, _token(refused.headers))
        digest = hashlib.sha256(body).hexdigest()
        if "schemaVersion" not in json.loads(body):
            raise ValueError("it is no manifest")
    except (OSError, ValueError, KeyError) as error:
        raise Unreachable(f"{image.name}:{image.tag} cannot be looked up: {error}") from error
    return f"{image.name}:{image.tag}@sha256:{digest}"


def _get(url: str, token: str | None = None) -> bytes:
    headers = {"Accept": _ACCEPT, **({"Authorization": f"Bearer {token}"} if token else {})}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 - the Dockerfile names it
        content: bytes = response.read()
        return content


def _token(headers: Message) -> str:
    """The token for reading that a registry gives to anyone, from where its refusal says."""
    challenge = dict(_CHALLENGE.findall(headers.get("WWW-Authenticate", "")))
    realm = challenge.pop("realm")
    token: str = json.loads(_get(f"{realm}?{urllib.parse.urlencode(challenge)}"))["token"]
    return token


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the image, or why it cannot be looked up with status 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.base_image", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", nargs="?", help="another image than the Dockerfile's")
    given = parser.parse_args(arguments)
    reference = given.image or default(Path(ROOT / "Dockerfile").read_text(encoding="utf-8"))
    try:
        print(resolve(parse(reference)))
    except (Unreachable, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
