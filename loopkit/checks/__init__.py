"""`check`: all checks of a machine, and the problems that they find before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from weakref import WeakSet

from loopkit.checks import (
    artifacts,
    child_runs,
    collisions,
    exits,
    guards,
    limits,
    lookups,
    references,
    report_maps,
    templates,
    text_as_code,
    unused,
)
from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem, ProblemsFound, Span, place_of
from loopkit.language.load import Loaded

Check = Callable[[Subject], Iterator[Problem]]

OF_PARTS: tuple[Check, ...] = (
    references.check_targets,
    references.check_agents,
    references.check_validators,
    references.check_budgets,
    references.check_feedback_names,
    references.check_best_of,
    collisions.check_origins,
    references.check_questions,
    unused.check_infeasible,
    references.check_agent_choices,
    references.check_agent_files,
    references.check_outside_agents,
    child_runs.check_item_paths,
    child_runs.check_child_inputs,
    child_runs.check_child_runs,
    references.check_models,
    references.check_providers,
    references.check_names_in_data,
    collisions.check_ids,
    collisions.check_fields,
    collisions.check_named_guards,
    exits.check_resets,
    limits.check_bounds,
    limits.check_tight_limits,
    limits.check_unbounded_calls,
    guards.check_named,
    guards.check_guards,
    guards.check_requirements,
    lookups.check_fields_as_data,
    report_maps.check_silent_schemas,
    lookups.check_lookups,
    references.check_plugins,
    references.check_servers,
    report_maps.check_report_maps,
    report_maps.check_report_schemas,
    report_maps.check_verdict_readings,
    collisions.check_severities,
    collisions.check_counting,
    unused.check_opinions,
    collisions.check_finding_keys,
    templates.check_templates,
    templates.check_sees,
    templates.check_needs,
    templates.check_plain_texts,
    report_maps.check_patterns,
    templates.check_baselines,
    report_maps.check_counts,
    unused.check_errors,
    unused.check_outputs,
    lookups.check_tools,
    artifacts.check_files,
    artifacts.check_folders,
    artifacts.check_best_folders,
    limits.check_from_best,
    artifacts.check_judged_elsewhere,
    exits.check_exits,
    unused.check_unused,
    text_as_code.check_text_as_code,
)
"""Checks of single parts."""
OF_WHOLE: tuple[Check, ...] = (
    exits.check_reachability,
    exits.check_cycles,
    exits.check_revise_targets,
    limits.check_limit_target,
    artifacts.check_judged,
    artifacts.check_shown,
    templates.check_feedback,
    artifacts.check_content,
    child_runs.check_child_content,
)
"""Checks of paths, which mean little while an edge leads to no state."""
OF_FAULTLESS: tuple[Check, ...] = (
    limits.check_never_binds,
    unused.check_unread_failures,
    unused.check_unread_verdict,
    artifacts.check_judged_before,
    unused.check_infeasible_success,
    unused.check_unused_fields,
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
    return exits.confirm_by_exploring(subject, _each_once(found))


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
