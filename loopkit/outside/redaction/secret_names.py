"""Names of environment variables that suggest a secret."""

from __future__ import annotations

import re

_WHOLE = r"KEY|PASS|PAT|PW|SK|CREDS?|(?<=_)PWD"
"""Words that mean a secret only by themselves: KEYBOARD, COMPASS, PATH, DESK and PWD mean none."""
_ENDS = (
    r"PASSWORDS?|PASSWD|PASSPHRASE|SECRETS?|CREDENTIALS?|TOKEN"
    r"|(?:ACCESS|ACCOUNT|API|AUTH|ENCRYPTION|MASTER|PRIVATE|SECRET|SIGNING)_?KEYS?"
    r"|(?:DB|MYSQL|PG|SMTP|SSH|USER)PASS"
)
"""Words that mean one also at the end of others, as in PGPASSWORD: of a MONKEY only the end is."""

SECRET_NAME = re.compile(
    rf"(?:(?:^|[_.-])(?:{_WHOLE})|(?:{_ENDS}))\d*(?:[_.-]|$)|_AUTH$", re.IGNORECASE
)
