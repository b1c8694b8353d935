"""`check`: all checks of a machine, and the problems that they find before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from weakref import WeakSet

from loopkit.checks.artifacts import (
    check_best_folders,
    check_content,
    check_files,
    check_folders,
    check_judged,
    check_judged_before,
    check_judged_elsewhere,
    check_shown,
)
from loopkit.checks.child_runs import (
    check_child_content,
    check_child_inputs,
    check_child_runs,
    check_item_paths,
)
from loopkit.checks.collisions import (
    check_counting,
    check_fields,
    check_finding_keys,
    check_ids,
    check_named_guards,
    check_origins,
    check_severities,
)
from loopkit.checks.exits import (
    check_cycles,
    check_exits,
    check_reachability,
    check_resets,
    check_revise_targets,
    confirm_by_exploring,
)
from loopkit.checks.guards import check_guards, check_named, check_requirements
from loopkit.checks.limits import (
    check_bounds,
    check_from_best,
    check_limit_target,
    check_never_binds,
    check_tight_limits,
    check_unbounded_calls,
)
from loopkit.checks.lookups import check_fields_as_data, check_lookups, check_tools
from loopkit.checks.references import (
    check_agent_choices,
    check_agent_files,
    check_agents,
    check_best_of,
    check_budgets,
    check_feedback_names,
    check_models,
    check_outside_agents,
    check_plugins,
    check_providers,
    check_questions,
    check_servers,
    check_targets,
    check_validators,
)
from loopkit.checks.report_maps import (
    check_counts,
    check_patterns,
    check_report_maps,
    check_report_schemas,
    check_silent_schemas,
    check_verdict_readings,
)
from loopkit.checks.subject import Subject
from loopkit.checks.templates import (
    check_baselines,
    check_feedback,
    check_needs,
    check_plain_texts,
    check_sees,
    check_templates,
)
from loopkit.checks.text_as_code import check_text_as_code
from loopkit.checks.unused import (
    check_errors,
    check_infeasible,
    check_infeasible_success,
    check_opinions,
    check_outputs,
    check_unread_failures,
    check_unread_verdict,
    check_unused,
    check_unused_fields,
)
from loopkit.document.problems import Problem, ProblemsFound, Span, place_of
from loopkit.language.load import Loaded

Check = Callable[[Subject], Iterator[Problem]]

OF_PARTS: tuple[Check, ...] = (
    check_targets,
    check_agents,
    check_validators,
    check_budgets,
    check_feedback_names,
    check_best_of,
    check_origins,
    check_questions,
    check_infeasible,
    check_agent_choices,
    check_agent_files,
    check_outside_agents,
    check_item_paths,
    check_child_inputs,
    check_child_runs,
    check_models,
    check_providers,
    check_ids,
    check_fields,
    check_named_guards,
    check_resets,
    check_bounds,
    check_tight_limits,
    check_unbounded_calls,
    check_named,
    check_guards,
    check_requirements,
    check_fields_as_data,
    check_silent_schemas,
    check_lookups,
    check_plugins,
    check_servers,
    check_report_maps,
    check_report_schemas,
    check_verdict_readings,
    check_severities,
    check_counting,
    check_opinions,
    check_finding_keys,
    check_templates,
    check_sees,
    check_needs,
    check_plain_texts,
    check_patterns,
    check_baselines,
    check_counts,
    check_errors,
    check_outputs,
    check_tools,
    check_files,
    check_folders,
    check_best_folders,
    check_from_best,
    check_judged_elsewhere,
    check_exits,
    check_unused,
    check_text_as_code,
)
"""Checks of single parts."""
OF_WHOLE: tuple[Check, ...] = (
    check_reachability,
    check_cycles,
    check_revise_targets,
    check_limit_target,
    check_judged,
    check_shown,
    check_feedback,
    check_content,
    check_child_content,
)
"""Checks of paths, which mean little while an edge leads to no state."""
OF_FAULTLESS: tuple[Check, ...] = (
    check_never_binds,
    check_unread_failures,
    check_unread_verdict,
    check_judged_before,
    check_infeasible_success,
    check_unused_fields,
)
"""Checks of unneeded parts, which wait for all errors: a misspelt name may need one."""
CHECKS = OF_PARTS + OF_WHOLE + OF_FAULTLESS
"""Each is total on every machine that loads, sound or not."""


def check(loaded: Loaded) -> list[Problem]:
    """All problems of a machine and its child machines, each once, by place. Runs nothing."""
    every = (problem for one in loaded.family for problem in _of_one(one))
    return sorted(_each_once(every), key=place_of)


def _of_one(loaded: Loaded) -> list[Problem]:
    """The problems of a machine, without those of its child machines."""
    subject = Subject.of(loaded)
    found: list[Problem] = []
    for checks in (OF_PARTS, OF_WHOLE, OF_FAULTLESS) if subject.is_sound() else (OF_PARTS,):
        if checks is OF_FAULTLESS and any(p.severity == "error" for p in found):
            break
        found += (problem for one in checks for problem in one(subject))
    return confirm_by_exploring(subject, _each_once(found))


def _each_once(problems: Iterable[Problem]) -> list[Problem]:
    found: dict[tuple[str, str, Span | None], Problem] = {}
    for problem in problems:
        found.setdefault((problem.code, problem.message, problem.span), problem)
    return list(found.values())


_SOUND: WeakSet[Loaded] = WeakSet()
"""Machines without errors, so that one that is loaded once and run often is checked once."""


def refuse_errors(loaded: Loaded) -> None:
    """Raise ProblemsFound with all errors of a machine, where it has any."""
    if loaded in _SOUND:
        return
    errors = [problem for problem in check(loaded) if problem.severity == "error"]
    if errors:
        raise ProblemsFound(errors)
    _SOUND.add(loaded)
