"""Secrets of the environment are kept out of texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.redaction import SECRET_NAME, redactor

SECRET = "abcd-1234-efgh"


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "db_password", "APP_APIKEY", "KEY"],
)
def test_variables_that_are_called_like_secrets_are_secrets(name: str) -> None:
    assert redactor({name: SECRET})(f"the key {SECRET}.") == f"the key [{name}]."


@pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "MONKEY", "TOKENS_LEFT"])
def test_other_variables_are_not(name: str) -> None:
    assert not SECRET_NAME.search(name)
    assert redactor({name: SECRET})(SECRET) == SECRET


def test_a_variable_that_an_agent_names_is_a_secret_whatever_it_is_called() -> None:
    assert redactor({"OURS": SECRET}, ["OURS", "UNSET"])(SECRET) == "[OURS]"


def test_values_too_short_to_be_secrets_stay() -> None:
    assert redactor({"API_KEY": "none"})("none of them") == "none of them"


def test_the_longer_of_two_secrets_that_begin_alike_leaves_no_rest() -> None:
    redact = redactor({"A_TOKEN": SECRET, "B_TOKEN": f"{SECRET}-more"})
    assert redact(f"{SECRET}-more, {SECRET}") == "[B_TOKEN], [A_TOKEN]"


@given(st.text(), st.text(), st.text(alphabet="ab-.*[](\\", min_size=8, max_size=12))
def test_no_text_keeps_a_secret(before: str, after: str, secret: str) -> None:
    told = redactor({"A_KEY": secret})(f"{before}{secret}{after}")
    assert secret.strip() not in told or len(secret.strip()) < 8
