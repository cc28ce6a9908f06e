"""Where the token of the admin verbs comes from, and when nobody asked for one is worth a word."""

from pathlib import Path

import pytest

from coordinator_server.config import Config, ConfigError, load
from coordinator_server.config.listeners import parse_address
from coordinator_server.server.component_settings import admin_token


def config(*settings: str) -> Config:
    return load(environ={}, settings=settings).config


def test_without_a_token_there_is_none() -> None:
    assert admin_token(config()) is None


def test_a_token_is_given_or_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    assert admin_token(config("admin.token=direct")) == "direct"
    assert admin_token(config(f"admin.token.file={file}")) == "s3cret"


def test_an_empty_file_and_one_that_is_not_there_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(" \n")
    with pytest.raises(ValueError, match=r"admin\.token\.file=.*: empty, expected a token"):
        admin_token(config(f"admin.token.file={file}"))
    expected = (
        r"admin\.token\.file=.*/nope: No such file or directory, expected a file with a token"
    )
    with pytest.raises(ValueError, match=expected):
        admin_token(config(f"admin.token.file={tmp_path}/nope"))
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"admin\.token\.file=.*: not UTF-8, expected a token"):
        admin_token(config(f"admin.token.file={file}"))


def test_a_file_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(ValueError, match=r"admin\.token\.file=/dev/zero: more than 65536 char"):
        admin_token(config("admin.token.file=/dev/zero"))


def test_a_token_twice_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        config("admin.token=s3cret", "admin.token.file=/somewhere")
    assert "expected either admin.token or admin.token.file" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.0.1:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
    ],
)
def test_an_address_is_loopback_or_not(address: str, is_loopback: bool) -> None:
    assert parse_address(address).is_loopback is is_loopback
