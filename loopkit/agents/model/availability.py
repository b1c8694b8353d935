"""Availability: whether a model is unavailable for now, so that another try would not help.

No quota is left, the provider has no such model, or its region is closed or down.
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
_REFUSING = frozenset({400, 403, 404, 410, 422, 451})
"""Statuses that refuse a request for its content."""


def is_unavailable(failure: FailureCause) -> bool:
    """Whether the provider said that the model is unavailable."""
    if failure.answered is None or failure.answered == 401:
        return False
    return _is_out_of_quota(failure) or _is_missing(failure) or _is_out_of_region(failure)


def _is_out_of_quota(failure: FailureCause) -> bool:
    return failure.answered == 402 or bool(failure.codes & QUOTA or _NO_QUOTA.search(failure.said))


def _is_missing(failure: FailureCause) -> bool:
    if failure.answered in (404, 410) or failure.codes & MISSING:
        return True
    return failure.answered in _REFUSING and bool(_NO_MODEL.search(failure.said))


def _is_out_of_region(failure: FailureCause) -> bool:
    is_refused = failure.answered in _REFUSING or (failure.answered or 0) >= 500
    return bool(failure.codes & REGION) or (is_refused and bool(_NO_REGION.search(failure.said)))
