"""The certificates of a cluster that lives for one test run, and the kubeconfigs made of them."""

import base64
import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
Key = ec.EllipticCurvePrivateKey


class Authority:
    """A CA with its files in `directory`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraint = (x509.BasicConstraints(ca=True, path_length=None), True)
        certificate = self._signed(self._name, self._key, [constraint])
        self.file = directory / f"{name}.crt"
        self.file.write_bytes(_pem(certificate))
        (directory / f"{name}.key").write_bytes(_private(self._key))

    def issue(
        self, file: str, name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Certificate and key of `name`; with `hosts` a server's, else a client's."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.ExtendedKeyUsage([SERVER if hosts else CLIENT]), False)
        ]
        if hosts:
            extensions.append((x509.SubjectAlternativeName([_host(host) for host in hosts]), False))
        certificate = self._signed(x509.Name(subject), key, extensions)
        paths = self._directory / f"{file}.crt", self._directory / f"{file}.key"
        paths[0].write_bytes(_pem(certificate))
        paths[1].write_bytes(_private(key))
        return paths

    def kubeconfig(self, file: str, server: str, name: str, *, groups: Sequence[str] = ()) -> Path:
        certificate, key = self.issue(file, name, groups=groups)
        user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        path = self._directory / f"{file}.conf"
        path.write_text(yaml.safe_dump(kubeconfig(server, self.file, user)))
        return path

    def _signed(
        self, subject: x509.Name, key: Key, extensions: Sequence[tuple[x509.ExtensionType, bool]]
    ) -> x509.Certificate:
        now = datetime.now(UTC)  # noqa: TID251 - a certificate is dated by the wall clock
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=30))
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self._key, hashes.SHA256())


def kubeconfig(server: str, authority: Path, user: dict[str, str], *, namespace: str = "default") -> dict[str, object]:
    """A configuration of one cluster, one user, one context, all named `test`."""
    cluster = {"server": server, "certificate-authority-data": _base64(authority)}
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }


def signing_key(directory: Path) -> tuple[Path, Path]:
    """The pair that service-account tokens are signed and checked with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = directory / "sa.key", directory / "sa.pub"
    private.write_bytes(_private(key))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: Key | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
