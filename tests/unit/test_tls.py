"""Which certificates are shown and trusted, and what is said of files that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localai import tls
from localai.cli import certificates
from localai.cli.worker import _beside_up
from localai.embedded import env_file
from localai.embedded.state_folder import StateFolder
from localai.errors import BadSetting, StartRefused
from localai.settings import Settings
from tests.certificates import Authority, Pair

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("IP:127.0.0.1", "DNS:localhost")


def distrust(pair: Pair, ca_file: Path | None, host: str = "127.0.0.1") -> str:
    return tls.why_distrusted(tls.server_context(pair.cert, pair.key), tls.client_context(ca_file), host)


def test_the_authorities_of_the_file_are_trusted_and_no_others(authority: Authority, pair: Pair) -> None:
    assert distrust(pair, authority.cert) == distrust(pair, authority.cert, "localhost") == ""
    assert distrust(pair, pair.cert) == "", "a server's own certificate may stand in the file"
    assert "not valid for 'elsewhere'" in distrust(pair, authority.cert, "elsewhere")
    assert "issuer" in distrust(pair, None)


@pytest.mark.parametrize("content", [None, "", "nonsense"])
def test_a_file_without_certificates_is_refused_with_its_variable(
    tmp_path: Path, pair: Pair, content: str | None
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadSetting, match=r"LOCALAI_CA_FILE=.*file\.pem"):
        tls.client_context(path)
    with pytest.raises(BadSetting, match=r"LOCALAI_TLS_CERT=.*file\.pem"):
        tls.server_context(path, pair.key)
    with pytest.raises(BadSetting, match=r"LOCALAI_TLS_"):
        tls.server_context(pair.cert, path)


def test_the_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    other = authority.issue("DNS:other")
    with pytest.raises(BadSetting, match=r"whose unencrypted key is in LOCALAI_TLS_KEY .*mismatch"):
        tls.server_context(pair.cert, other.key)


def test_a_certificate_without_its_key_is_refused_and_a_key_without_its_certificate() -> None:
    with pytest.raises(BadSetting, match=r"LOCALAI_TLS_CERT='/c'.*both or none: LOCALAI_TLS_KEY"):
        Settings.load({"LOCALAI_TLS_CERT": "/c"})
    with pytest.raises(BadSetting, match=r"LOCALAI_TLS_KEY='/k'.*both or none: LOCALAI_TLS_CERT"):
        Settings.load({"LOCALAI_TLS_KEY": "/k"})


def test_up_refuses_a_certificate_that_its_own_worker_would_not_trust(authority: Authority, pair: Pair) -> None:
    good = replace(Settings(), tls_cert=pair.cert, tls_key=pair.key)
    assert certificates.for_this_machine(good).ca_file == pair.cert
    assert certificates.for_this_machine(replace(good, ca_file=authority.cert)).ca_file == authority.cert
    other = authority.issue("DNS:frontend.internal")
    with pytest.raises(StartRefused, match=r"connects to 127\.0\.0\.1 and would not trust .*not valid for"):
        certificates.for_this_machine(replace(good, tls_cert=other.cert, tls_key=other.key))
    assert certificates.for_this_machine(Settings()) == Settings()


def test_a_worker_beside_up_trusts_what_the_state_folder_names(tmp_path: Path, pair: Pair) -> None:
    settings = replace(Settings(), tls_cert=pair.cert, tls_key=pair.key, ca_file=pair.cert)
    folder = StateFolder(tmp_path)
    env_file.write(folder.env, {"LOCALAI_URL": "https://127.0.0.1:1", **certificates.for_clients(settings)})
    assert _beside_up(replace(Settings(), state_dir=tmp_path)).ca_file == pair.cert
    assert certificates.for_clients(replace(settings, ca_file=Path("/with a space/ca.pem"))) == {}
    assert certificates.for_clients(Settings()) == {}
