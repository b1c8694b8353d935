"""Secrets of the environment are kept out of texts."""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.outside.redaction import (
    names_secret,
    ordinary_values,
    redact_data,
    redactor,
    secret_finder,
)
from tests.warm import ran, ran_loopkit

SECRET = "abcd-1234-efgh"


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "db_password", "APP_APIKEY", "KEY",
     "PGPASSWORD", "DB_PASS", "SECRETKEY", "STRIPE_SK", "MYSQL_PWD", "NPMTOKEN", "SSHPASS",
     "dbPassword", "API_KEY_2", "TOKEN1", "CLIENTSECRET", "AZURE_AUTHKEY", "GITHUB_PAT", "API_KEYS",
     "REDISCLI_AUTH", "GPG_PASSPHRASE", "PASSWORDS", "APP_CREDS", "GOOGLE_CREDENTIALS", "smtp.pw"],
)  # fmt: skip
def test_variables_that_are_called_like_secrets_are_secrets(name: str) -> None:
    assert redactor({name: SECRET})(f"the key {SECRET}.") == f"the key [{name}]."


@pytest.mark.parametrize(
    "name",
    ["PATH", "KEYBOARD", "MONKEY", "TOKENS_LEFT", "PASSENGER", "TOKENIZERS_PARALLELISM", "PWD",
     "SSH_AUTH_SOCK", "OLDPWD", "COMPASS", "BYPASS_CACHE", "SSH_ASKPASS", "TURKEY", "HOTKEY",
     "DESK", "PATTERN", "SECRETARY", "MAX_TOKENS", "GIT_AUTHOR_NAME", "XAUTHORITY", "KEYMAP",
     "PASSIVE", "RISK", "SKIP", "AUTHOR"],
)  # fmt: skip
def test_other_variables_are_not(name: str) -> None:
    assert not names_secret(name)
    assert redactor({name: SECRET})(SECRET) == SECRET
    assert ordinary_values({name: "word"}) == []


def test_a_variable_that_an_agent_names_is_a_secret_whatever_it_is_called() -> None:
    assert redactor({"OURS": SECRET}, ["OURS", "UNSET"])(SECRET) == "[OURS]"


@pytest.mark.parametrize(
    "value", ["none", "postgres", "correcthorsebatterystaple", "pa55", "a b c d-e"]
)
def test_values_that_could_be_any_word_stay_and_are_told(value: str) -> None:
    environment = {"DB_PASSWORD": value}
    assert redactor(environment)(f"import {value}, none of them") == f"import {value}, none of them"
    assert ordinary_values(environment) == ["DB_PASSWORD"]


@pytest.mark.parametrize("value", [SECRET, "", "   "])
def test_values_that_are_taken_out_or_empty_are_not_told(value: str) -> None:
    assert ordinary_values({"DB_PASSWORD": value}) == []


def test_the_longer_of_two_secrets_that_begin_alike_leaves_no_rest() -> None:
    redact = redactor({"A_TOKEN": SECRET, "B_TOKEN": f"{SECRET}-more"})
    assert redact(f"{SECRET}-more, {SECRET}") == "[B_TOKEN], [A_TOKEN]"


def test_secrets_that_overlap_leave_no_rest() -> None:
    redact = redactor({"A_TOKEN": "1212121212", "B_TOKEN": "2121213333"})
    assert redact("x121212121213333y") == "x[A_TOKEN]y"


@given(st.text(), st.text(), st.text(alphabet="ab-.*[](\\ 1", min_size=8, max_size=12))
def test_no_text_keeps_a_secret(before: str, after: str, secret: str) -> None:
    told = redactor({"A_KEY": secret})(f"{before}{secret}{after}")
    is_left = ordinary_values({"A_KEY": secret}) or not secret.strip()
    assert secret.strip() not in told or is_left


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("postgres://app:p4ss-w0rd@db:5432/main?x=a@b", ["app:p4ss-w0rd", "p4ss-w0rd"]),
        ("redis://:p4ss-w0rd@cache", [":p4ss-w0rd", "p4ss-w0rd"]),
        ("http://app:p4ss%2Fw0rd@proxy", ["app:p4ss%2Fw0rd", "p4ss%2fw0rd", "p4ss/w0rd"]),
        ("amqp://app:p4ss/w0rd@queue/v", ["app:p4ss/w0rd", "p4ss/w0rd"]),
        ("http://none:3128 https://app:p4ss-w0rd@proxy", ["app:p4ss-w0rd", "p4ss-w0rd"]),
    ],
)
def test_the_user_and_password_of_a_url_are_a_secret_in_any_variable(
    url: str, secrets: list[str]
) -> None:
    redact = redactor({"DATABASE_URL": url})
    for secret in secrets:
        assert redact(f"say {secret} now") == "say [DATABASE_URL] now"
    assert redact(url) == url.replace(secrets[0], "[DATABASE_URL]")
    assert redact("app db main queue proxy cache 5432") == "app db main queue proxy cache 5432"


@pytest.mark.parametrize(
    "url",
    ["http://localhost:4873/@scope/package-1", "git+ssh://git@example.com/a/b-123456", "https://a/b@c",
     "http://[::1]:8080/x@y", "docker://host/image:tag-12345@sha256", "://", "file:///a/b"],
)  # fmt: skip
def test_a_url_without_a_password_has_none(url: str) -> None:
    assert redactor({"A_URL": url})(url) == url
    assert ordinary_values({"A_URL": url}) == []


def test_a_password_of_letters_in_a_url_goes_with_its_user_alone() -> None:
    environment = {"DATABASE_URL": "postgres://postgres:postgres@localhost/app"}
    redact = redactor(environment)
    assert redact("import postgres") == "import postgres"
    assert redact("at postgres:postgres@localhost") == "at [DATABASE_URL]@localhost"
    assert ordinary_values(environment) == ["DATABASE_URL"]


@given(st.binary(max_size=7), st.binary(max_size=7), st.text(min_size=8, max_size=30))
def test_a_secret_in_base64_is_found_whatever_stands_around_it(
    before: bytes, after: bytes, more: str
) -> None:
    secret = f"s3cret-{more}-1".strip()
    raw = before + secret.encode() + after
    for encode in (b64encode, urlsafe_b64encode):
        told = redactor({"A_KEY": secret})(f"Authorization: Basic {encode(raw).decode()}")
        assert "[A_KEY]" in told
        # Of what is left nobody can tell more than half of the first and of the last character.
        rest = told.partition("Basic ")[2].replace("[A_KEY]", "")
        assert len(rest) <= len(encode(before + after)) + 4


def test_a_secret_broken_over_lines_is_found_with_what_breaks_it() -> None:
    assert redactor({"A_KEY": SECRET})("on abcd-12\n  34-ef\tgh it") == "on [A_KEY] it"
    assert redactor({"A_KEY": "two words-1"})("say two\nwords-1.") == "say [A_KEY]."


@pytest.mark.parametrize("name", ["A_KEY", "A_URL"])
def test_how_a_secret_is_written_in_addresses_and_json_is_found(name: str) -> None:
    value = 'p/ä"ss+w0rd'
    redact = redactor({name: value if name == "A_KEY" else f"x://u:{value}@h"})
    in_address = ("p%2F%C3%A4%22ss%2Bw0rd", "p%2f%c3%a4%22ss%2bw0rd")
    in_json = ('p\\/\\u00e4\\"ss+w0rd', 'p\\/\\u00E4\\"ss+w0rd', 'p/ä\\"ss+w0rd')
    for form in (*in_address, *in_json):
        assert redact(f"<{form}>") == f"<[{name}]>"


HOSTILE = """
import time, sys
from loopkit.outside.redaction import redactor
environment = {f"A{i}_KEY": f"sk-proj-{i:04}-" + "x1" * 40 for i in range(300)}
redact = redactor(environment)
secret = environment["A7_KEY"]
for text in (
    "lorem ipsum dolor " * 300_000,
    "x1" * 1_000_000,
    "x " * 1_000_000,
    "sk-proj-0007-" * 50_000,
    (" ".join(secret) + "\\n") * 5_000,
    "-" * 3_000_000,
):
    redact(text)
assert redact(" ".join(secret)) == "[A7_KEY]"
"""


def test_long_texts_and_many_secrets_take_no_time() -> None:
    """300 secrets, and 17 MB of texts in which many begin."""
    assert ran(["-c", HOSTILE], timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("use sk-proj-abcdefghijkl1234 please", "sk-p"),
        (f"ghp_{'a1' * 18}", "ghp_"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
        ("xoxb-1234567890-abcdef", "xoxb"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", "-----BEGIN RSA PRIVATE KEY-----"),
        ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_keys_are_known_by_how_they_begin(text: str, begins: str) -> None:
    assert secret_finder({})(text) == f"a key that begins with `{begins}`"


@pytest.mark.parametrize(
    "text", ["ask-me-anything-you-want", "task-list-for-the-weekend", "a sk-learn model", "AKIA",
             "ghp_", "-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----"]
)  # fmt: skip
def test_ordinary_text_looks_like_no_key(text: str) -> None:
    assert secret_finder({"A_KEY": SECRET})(text) is None


MACHINE = """
loopkit: 1
input: {issue: str, more: {type: [str], default: []}}
states:
  echo: {render: "{{ input.issue }}{{ input.more | join }}", output: plan, next: done}
  done: {final: success, result: plan}
"""


def started(folder: Path, issue: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "machine.yaml").write_text(MACHINE)
    kept = {name: value for name, value in os.environ.items() if not names_secret(name)}
    argv = ("run", "machine.yaml", "--set", f"issue={issue}")
    done = ran_loopkit(*argv, cwd=folder, env={**kept, **environment})
    done.check_returncode()
    return done


def test_an_input_that_looks_like_a_secret_is_warned_of_before_the_run(tmp_path: Path) -> None:
    told = started(tmp_path, f"log in with {SECRET}", OUR_TOKEN=SECRET).stderr
    assert told.startswith(
        "warning: `input.issue` looks like a secret: it has the value of `OUR_TOKEN`"
    )
    assert SECRET not in told
    told = started(tmp_path, "AKIAIOSFODNN7EXAMPLE").stderr
    assert "`input.issue` looks like a secret: it has a key that begins with `AKIA`" in told


def test_secrets_that_could_be_any_word_are_warned_of_once_a_run(tmp_path: Path) -> None:
    told = started(tmp_path, "import postgres", DB_PASSWORD="postgres", API_KEY="none")
    assert told.stdout == "import postgres\n"
    assert told.stderr.count("warning: API_KEY, DB_PASSWORD: a value of only letters") == 1
    assert "postgres" not in told.stderr
    assert "warning" not in started(tmp_path, "import postgres", DB_PASSWORD=SECRET).stderr


def test_data_is_redacted_in_its_keys_and_lists_too() -> None:
    data = {"key pw": ["pw", {"inner": ("pw", 1, None)}], "other": "nothing"}
    made = redact_data(data, lambda text: text.replace("pw", "[PW]"))
    assert made == {"key [PW]": ["[PW]", {"inner": ["[PW]", 1, None]}], "other": "nothing"}
