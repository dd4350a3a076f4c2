"""Certificates for tests: a private authority, and the certificates it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import frozen

from netfw.errors import BackendBroken

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@frozen
class Certificate:
    """The files of a certificate: they prove the identity of a client or server."""

    certificate: Path
    key: Path


class PrivateAuthority:
    """A certificate authority in a directory; it signs with openssl(1).

    :raises BackendBroken: openssl is not installed.
    """

    def __init__(self, directory: Path, name: str = "netfw test authority") -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "ca.pem"
        _openssl(
            "req", "-x509", *_EC, "-keyout", directory / "ca.key", "-out", self.certificate,
            "-days", "2", "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE",
        )  # fmt: skip

    def vouch_for(self, name: str, *alternatives: str) -> Certificate:
        """Return a certificate for *name*, with *alternatives* such as ``IP:127.0.0.1``."""
        made = Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        names = ",".join(alternatives or (f"DNS:{name}",))
        _openssl(
            "req", "-x509", *_EC, "-keyout", made.key, "-out", made.certificate, "-days", "2",
            "-subj", f"/CN={name}", "-CA", self.certificate, "-CAkey", self._directory / "ca.key",
            "-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip
        return made


def _openssl(*words: str | Path) -> None:
    try:
        subprocess.run(("openssl", *words), capture_output=True, check=True)
    except FileNotFoundError as exc:
        raise BackendBroken("openssl is not installed: run tools/install-packages") from exc
    except subprocess.CalledProcessError as exc:
        raise BackendBroken(f"openssl failed: {exc.stderr.decode(errors='replace')}") from exc
