"""A secret may come from a file: which files are taken, and what a refusal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.errors import BadSetting
from localai.secret_files import LARGEST_BYTES
from localai.settings import Settings

pytestmark = pytest.mark.unit

SECRETS = [(name, spec) for name, spec in Settings.specs() if spec.secret]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("a-secret-of-twenty-characters\n")
    return path


@pytest.mark.parametrize(("name", "spec"), SECRETS, ids=[name for name, _ in SECRETS])
def test_every_secret_setting_may_come_from_a_file(file: Path, name: str, spec: object) -> None:
    spec = dict(Settings.specs())[name]
    by_variable = Settings.load({spec.file_variable: str(file)})
    by_flag = Settings.load({}, {f"{name}_file": str(file)})
    assert getattr(by_variable, name) == getattr(by_flag, name) == spec.parse("a-secret-of-twenty-characters")
    assert by_variable.environ() == {spec.variable: "a-secret-of-twenty-characters"}, "children get the secret itself"


def test_a_file_of_keys_holds_one_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("first-key-of-the-file\r\n\n  second-key-of-the-file  \n")
    assert Settings.load({"LOCALAI_API_KEY_FILE": str(path)}).api_key == (
        "first-key-of-the-file",
        "second-key-of-the-file",
    )


def test_a_flag_with_a_file_wins_over_a_variable(file: Path) -> None:
    found = Settings.load({"LOCALAI_REGISTRATION_TOKEN": "of the variable"}, {"registration_token_file": str(file)})
    assert found.registration_token == "a-secret-of-twenty-characters"
    other = Settings.load({"LOCALAI_REGISTRATION_TOKEN_FILE": str(file)}, {"registration_token": "of the flag"})
    assert other.registration_token == "of the flag"


def test_a_secret_in_both_forms_is_refused_without_showing_it(file: Path) -> None:
    with pytest.raises(BadSetting, match=r"LOCALAI_API_KEY_FILE=.*nothing beside LOCALAI_API_KEY") as refused:
        Settings.load({"LOCALAI_API_KEY": "given-in-a-variable", "LOCALAI_API_KEY_FILE": str(file)})
    assert "given-in" not in refused.value.message and "a-secret" not in refused.value.message
    with pytest.raises(BadSetting, match="--nats-url-file"):
        Settings.load({}, {"nats_url": "nats://x", "nats_url_file": str(file)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"one\ntwo\n", "on one line"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"x" * (LARGEST_BYTES + 1), "at most"),
    ],
    ids=["absent", "empty", "blank", "two lines", "binary", "huge"],
)
def test_a_file_that_cannot_be_a_secret_is_refused_with_its_path(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadSetting, match=reason) as refused:
        Settings.load({"LOCALAI_REGISTRATION_TOKEN_FILE": str(path)})
    assert str(path) in refused.value.message and "LOCALAI_REGISTRATION_TOKEN_FILE" in refused.value.message


def test_a_folder_is_no_secret_file(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="Is a directory"):
        Settings.load({"LOCALAI_API_KEY_FILE": str(tmp_path)})


def test_the_key_variable_of_other_programs_is_not_taken() -> None:
    assert Settings.load({"API_KEY": "the-key-of-another-program"}).api_key == ()
