"""Availability: whether a model can't be had for now, so that another try of it brings nothing.

No quota is left, the provider has no such model, or its region is closed or out.
"""

from __future__ import annotations

import re

from loopkit.agents.model.failure_cause import FailureCause

QUOTA = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
    "insufficient_balance", "exceeded_current_quota_error",
})  # fmt: skip
"""Codes that say that no money is left, not that calls come too fast."""
MISSING = frozenset({
    "model_not_found", "model_not_available", "model_decommissioned", "invalid_model",
    "unknown_model", "DeploymentNotFound",
})  # fmt: skip
REGION = frozenset({"unsupported_country_region_territory"})
_NO_MODEL = re.compile(
    r"\bmodel\b.{0,100}?\b(?:not found|not exist|not available|no longer available|not supported in"
    r"|has been (?:decommissioned|deprecated|retired)|identifier is invalid)\b"
    r"|\b(?:invalid|unknown|no such) model\b|\bnot a valid model\b|\baccess to (?:the )?model\b",
    re.IGNORECASE,
)
_NO_QUOTA = re.compile(r"exceeded your current quota|credit balance is too low", re.IGNORECASE)
_CLOSED = r"\b(?:not (?:currently |yet )?(?:available|supported)|unavailable|unsupported|outage)\b"
_PLACE = r"\b(?:region|country|location|territory|zone)\b"
_NO_REGION = re.compile(rf"{_PLACE}.{{0,80}}?{_CLOSED}|{_CLOSED}.{{0,80}}?{_PLACE}", re.IGNORECASE)
_TELLING = frozenset({400, 403, 404, 410, 422, 451})
"""Statuses of requests that are refused for what they ask for."""


def is_unavailable(seen: FailureCause) -> bool:
    """Whether the provider said that the model can't be had."""
    if seen.answered is None or seen.answered == 401:
        return False
    return _is_out_of_quota(seen) or _is_missing(seen) or _is_out_of_region(seen)


def _is_out_of_quota(seen: FailureCause) -> bool:
    return seen.answered == 402 or bool(seen.codes & QUOTA or _NO_QUOTA.search(seen.said))


def _is_missing(seen: FailureCause) -> bool:
    if seen.answered in (404, 410) or seen.codes & MISSING:
        return True
    return seen.answered in _TELLING and bool(_NO_MODEL.search(seen.said))


def _is_out_of_region(seen: FailureCause) -> bool:
    is_told = seen.answered in _TELLING or (seen.answered or 0) >= 500
    return bool(seen.codes & REGION) or (is_told and bool(_NO_REGION.search(seen.said)))
