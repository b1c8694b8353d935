"""The findings ledger: the answers of validators become one report, compared with those before.

Everything is computed from the rounds of one validate state, one for each attempt that it judged. A
missing answer never helps the artifact: a fail counts as soon as no missing answer could change it,
an approval only if every answer that was asked for is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import islice
from operator import eq
from statistics import median_low
from typing import Literal, TypeAlias

from loopkit.engine.findings import (
    NOT_NAMED_AGAIN,
    OF_ARTIFACT,
    OF_CHECK,
    OF_JUDGE,
    OF_JUDGES,
    REPEATED,
    Answer,
    Finding,
    Report,
    Status,
    Verdict,
    finding_id,
    latest_resume,
    with_findings,
)
from loopkit.engine.findings import verdict_of as verdict_of_findings
from loopkit.engine.payloads import Artifact
from loopkit.engine.records import WORST_CLASS, VersionId
from loopkit.engine.rounds import Round, Rounds, what_blocks
from loopkit.engine.state import RunState
from loopkit.language.facts import UNANSWERED, Severities
from loopkit.language.states.kinds import ValidateState
from loopkit.machine.graph import Origins
from loopkit.machine.program import Program
from loopkit.text import as_nfc
from loopkit.values import Value, replace


def complete(
    program: Program,
    run: RunState,
    name: str,
    artifact: Artifact,
    panel: Panel,
    earlier: Rounds,
    made_from: dict[str, int],
) -> Report:
    """The report of one round."""
    asked = program.plans[name].rules
    assert asked is not None
    version = version_of(program, run, artifact)
    if asked.state.combine == "majority":
        panel = outvote(panel, asked.levels)
    answers = panel.answers
    line = earlier.line
    before = line.open
    found: Sequence[Finding] = merge_findings(answers, asked.levels)
    origins = program.graph.origins if program.graph.has_origins else None
    if origins is not None:
        author = program.graph.author_of(artifact.name, artifact.author)
        found = attribute(found, origins, author)
    findings = counted = with_status(keep_ids(found, before), line, before)
    verdict = verdict_of(panel, findings, asked.state.quorum)
    if verdict == "incomplete":
        # Once all programs can be started, it is found again.
        findings = counted = tuple([finding for finding in findings if not finding.blocking])
    findings = with_repetition(findings, artifact, line, made_from, origins)
    report = Report(
        state=name,
        artifact=artifact.name,
        **{name: getattr(artifact, name) for name in VersionId.__struct_fields__},
        fallback=artifact.fallback_reason,
        verdict=verdict,
        severity=program.machine.severity_of(
            (finding.severity for finding in counted),
            sum(finding.blocking for finding in counted),
        ),
        made_from=made_from,
        answers=answers,
        findings=findings,
        score=min((a.score for a in panel.judges if a.score is not None), default=None),
        work=version.digest,
    )
    if panel.missing or verdict in UNANSWERED:
        ranks = map(_rank_of_error, panel.missing)
        error_class = WORST_CLASS[min(ranks)] if verdict == "incomplete" else None
        report = replace(report, error_class=error_class, reason=reason(verdict, panel))
    if verdict in UNANSWERED:
        return report
    if before:
        by_words = {(by, OF_JUDGE) for by, _, judge in asked.judges if judge.is_in_words}
        for by, rules in asked.fixed:
            by_words |= {(by, rule.code or at) for at, rule in rules if rule.is_in_words}
        resolved, unnamed, unseen = no_longer_found(findings, before, panel, by_words)
        report = replace(report, resolved=resolved, unnamed=unnamed, unseen=unseen)
    if verdict != "fail":
        return report
    if origins is not None:
        report = replace(report, origin=earliest(findings, origins))
    is_stall = bool(earlier) and has_stalled(earlier, report, version, program.machine.limits.stall)
    return replace(report, stalled=True) if is_stall else report


def is_repeated(artifact: Artifact, last: Round | None, made_from: Mapping[str, int]) -> bool:
    """Whether an author has answered as in the round before, white space aside."""
    if last is None or not (artifact.text.strip() or artifact.tree):
        return False
    one, other = (part.replace(text=part.text.strip()) for part in (artifact, last.judged))
    is_again = one.author == other.author and one.attempt != other.attempt
    is_known = bool(last.report.work) and last.report.made_from == made_from
    return is_again and is_known and _fingerprint(one) == _fingerprint(other)


def with_repetition(
    findings: tuple[Finding, ...],
    artifact: Artifact,
    earlier: Rounds,
    made_from: Mapping[str, int],
    origins: Origins | None,
) -> tuple[Finding, ...]:
    """The findings; if some are for the author, also that its answer is the one before."""
    author = artifact.author
    blocking = tuple([found for found in findings if found.blocking])
    worst = next((found for found in blocking if found.is_for(author)), None)
    if worst is None or not is_repeated(artifact, earlier.last, made_from):
        return findings
    found = Finding(
        id=finding_id(OF_ARTIFACT, REPEATED, "", REPEATED),
        message="the answer is the same as the one before",
        severity=worst.severity,
        validator=OF_ARTIFACT,
        rule=REPEATED,
        code=REPEATED,
        origins=(author,) if origins is not None else (),
    )
    marked = with_status((found,), earlier, earlier.open)
    return (*blocking, *marked, *findings[len(blocking) :])


Place: TypeAlias = tuple[str, str]
"""A validator, and the name of its rule in findings."""


class Panel(Value, frozen=True):
    fixed: tuple[Answer, ...]
    """The answers of the rules that need no model."""
    judges: tuple[Answer, ...]
    """The answer of each judge; empty if they were not asked because a rule blocks."""

    @property
    def answers(self) -> tuple[Answer, ...]:
        return (*self.fixed, *self.judges)

    @property
    def missing(self) -> tuple[Answer, ...]:
        return tuple([answer for answer in self.answers if answer.is_missing])

    def is_short(self, quorum: int | None) -> bool:
        """Whether a rule gave no verdict, or fewer judges gave one than wanted."""
        if any(answer.is_missing for answer in self.fixed):
            return True
        asked = [answer for answer in self.judges if answer.verdict != "not_applicable"]
        given = sum(not answer.is_missing for answer in asked)
        return given < (len(asked) if quorum is None else min(quorum, len(asked)))


def outvote(panel: Panel, levels: Severities) -> Panel:
    """The panel with failing judges outvoted if more judges approve."""
    against = sum(answer.verdict == "fail" for answer in panel.judges)
    for_it = sum(answer.verdict in ("pass", "warn") for answer in panel.judges)
    if not 0 < against < for_it:
        return panel
    return Panel(panel.fixed, tuple(_outvote_answer(answer, levels) for answer in panel.judges))


def _outvote_answer(answer: Answer, levels: Severities) -> Answer:
    if answer.verdict != "fail":
        return answer
    reason = f"{answer.reason}; it is outvoted" if answer.reason else "it fails, and is outvoted"
    vetoes = {finding.id for finding in answer.findings if finding.rule == OF_CHECK}
    return as_advice(answer.replace(reason=reason), levels, but=vetoes)


def as_advice(answer: Answer, levels: Severities, but: Container[str] = ()) -> Answer:
    """The answer in which only the findings with the ids `but` may block."""
    level = levels.advisory
    found = (
        f.with_level(level, blocking=False) if f.blocking and f.id not in but else f
        for f in answer.findings
    )
    return with_findings(answer, found)


def settle(
    answers: Sequence[Answer], earlier: Rounds, state: ValidateState, levels: Severities
) -> tuple[Answer, ...]:
    """The answers after `settle_after` rounds: findings that are new by then do not block.

    The worst severity still blocks, and so does a finding that can't be told from known ones.
    """
    if state.settle_after is None or len(earlier) < state.settle_after:
        return tuple(answers)
    known = {found for entry in islice(earlier, state.settle_after) for found in entry.ids}

    def settle_finding(finding: Finding) -> Finding:
        is_new = finding.identified and finding.id not in known
        settles = is_new and finding.severity != levels.worst
        return finding.replace(blocking=False) if settles else finding

    return tuple(with_findings(answer, map(settle_finding, answer.findings)) for answer in answers)


def merge_findings(answers: Iterable[Answer], levels: Severities) -> list[Finding]:
    """Each finding once, blocking ones first, the worst first, in the order of the validators.

    A finding that several validators have under one key, or in the same words, is taken from the
    one that grades it worst, with all their names.
    """

    all_found = [finding for answer in answers for finding in answer.findings]
    if len(all_found) < 2:
        return all_found

    def badness(finding: Finding) -> tuple[bool, int]:
        return not finding.blocking, levels.rank(finding.severity)

    unique: dict[str, Finding] = {}
    ids: dict[object, str] = {}
    for finding in all_found:
        by_words = ids.setdefault(finding.sameness, finding.id)
        identity = finding.id if finding.id in unique else by_words
        known = unique.get(identity)
        if known is None or (identity != finding.id and _is_told_apart(known, finding)):
            unique[finding.id] = finding
            continue
        names = tuple(dict.fromkeys((*known.named_by, *finding.named_by)))
        worst = min(known, finding, key=badness).replace(id=identity)
        if known.origins != finding.origins:
            worst = worst.replace(origins=(*known.origins, *finding.origins))
        is_shared = (finding.key or finding.id != identity) and len(names) > 1
        unique[identity] = worst.replace(reviewers=names) if is_shared else worst
    return sorted(unique.values(), key=badness)


def _is_told_apart(one: Finding, other: Finding) -> bool:
    """Whether a validator says more of two findings than their words, and not the same."""
    differs = (one.severity, one.item) != (other.severity, other.item)
    return differs and one.validator == other.validator


def keep_ids(findings: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """The findings, with the ids of open ones that another validator found in the same words."""
    now, known = ({one.id for one in found} for found in (findings, before))
    ids = {one.sameness: one.id for one in before if one.id not in now}
    if not ids:
        return list(findings)
    return [
        one if one.id in known else one.replace(id=ids.pop(one.sameness, one.id))
        for one in findings
    ]


def verdict_of(panel: Panel, findings: Iterable[Finding], quorum: int | None) -> Verdict:
    """The strictest verdict counts; missing answers make the report incomplete."""
    found = verdict_of_findings(findings)
    given = {answer.verdict for answer in panel.answers}
    if "infeasible" in given:
        return "infeasible"
    if any(answer.not_started for answer in panel.fixed):
        # No author can help that, whatever else blocks.
        return "incomplete"
    if found == "fail":
        return "fail"
    if panel.is_short(quorum):
        return "incomplete"
    if found == "warn":
        return "warn"
    return "pass" if "pass" in given else "not_applicable"


def _rank_of_error(missing: Answer) -> int:
    return WORST_CLASS.index(missing.error_class or "content")


def reason(verdict: Verdict, panel: Panel) -> str:
    """Why there are no verdicts, in the words of the validators that gave none."""
    if verdict == "infeasible":
        return next(a.reason for a in panel.answers if a.verdict == "infeasible")
    given = "; ".join([f"{answer.validator}: {answer.reason}" for answer in panel.missing])
    return given if verdict == "incomplete" else f"no verdict: {given}"


class Version(Value, frozen=True):
    """The identity of an attempt's work."""

    digest: str
    """The digest of the artifact and of the agents' artifacts that it was made from.

    Empty if the files that a program left are not known."""
    is_whole: bool
    """Whether the artifact is all of the work. The text of a program is not: it works on files."""


def version_of(program: Program, run: RunState, artifact: Artifact) -> Version:
    """The version of an artifact and of what its author made it from."""
    whole = program.whole_authors
    is_whole = bool(artifact.tree) or artifact.author in whole
    if not (artifact.workspace or is_whole):
        return Version("", is_whole)
    sources = sources_of(program, run, artifact)
    if not all(part.workspace or part.tree or part.author in whole for part in sources):
        return Version("", is_whole)
    fingerprints = [_fingerprint(part) for part in (artifact, *sources)]
    return Version(_digest(json.dumps(fingerprints)), is_whole)


def _fingerprint(part: Artifact) -> list[str]:
    """A value that is equal for equal versions of one artifact. A folder is its files."""
    if part.tree:
        return [part.name, part.tree]
    return [part.name, _digest(normalise(part)), part.workspace]


def normalise(artifact: Artifact) -> str:
    """The text that equal versions have in common: see "The findings ledger" of the language."""
    if artifact.is_data:
        return json.dumps(artifact.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = as_nfc(artifact.text).replace("\r\n", "\n").replace("\r", "\n")
    lines = (line for line in text.split("\n") if line.strip())
    # The indentation counts; all other white space is one blank.
    return "\n".join([line[: -len(line.lstrip())] + " ".join(line.split()) for line in lines])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sources_of(program: Program, run: RunState, artifact: Artifact) -> list[Artifact]:
    """The artifacts of agents that an artifact was made from, step by step back, sorted by name."""
    found = list[Artifact]()
    seen = {artifact.name}
    authors = [artifact.author]
    for author in authors:
        named = program.names_behind.get(author, frozenset()) & run.artifacts.keys()
        for name in sorted(named - seen):
            seen.add(name)
            source = run.artifacts[name]
            authors.append(source.author)
            if source.author and program.machine.states[source.author].asks:
                found.append(source)
    return sorted(found, key=lambda part: part.name)


def with_status(
    findings: Sequence[Finding], earlier: Rounds, before: Iterable[Finding]
) -> tuple[Finding, ...]:
    """The findings of a round, each with its status by the rounds before.

    `before` are the findings that were open after those.
    """
    if not findings:
        return ()
    last = {finding.id for finding in before}
    found = frozenset[str]().union(*[entry.ids for entry in earlier])

    def status_of(finding: Finding) -> Status:
        known: Status = "regressed" if finding.id in found else "new"
        return "recurring" if finding.id in last else known

    return tuple([replace(finding, status=status_of(finding)) for finding in findings])


def open_findings_of(validator: str, earlier: Rounds) -> tuple[Finding, ...]:
    """The findings of a validator's judges that are open after these rounds."""
    return tuple(f for f in earlier.open if f.rule == OF_JUDGE and validator in f.named_by)


def no_longer_found(
    findings: Iterable[Finding], before: Iterable[Finding], panel: Panel, by_words: Container[Place]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that were open `before` and are not in this round: (resolved, unnamed, unseen).

    Unseen are those whose rule or judge was not asked, gave no verdict, or has not looked at
    everything. Unnamed are those that may be meant by what was found: see `_may_be_meant`.
    """
    now = {finding.id for finding in findings}
    resolved: list[Finding] = []
    unnamed: list[Finding] = []
    unseen: list[Finding] = []
    for finding in before:
        if finding.id in now:
            continue
        asked = panel.judges if finding.rule in OF_JUDGES else panel.fixed
        own = [answer for answer in asked if answer.validator in finding.named_by]
        in_words = any((name, finding.rule) in by_words for name in finding.named_by)
        if not _is_looked_for(finding, own, in_words):
            unseen.append(finding)
        elif _may_be_meant(finding, own, in_words):
            unnamed.append(replace(finding, status=NOT_NAMED_AGAIN))
        else:
            resolved.append(replace(finding, status="resolved"))
    return tuple(resolved), tuple(unnamed), tuple(unseen)


def _is_looked_for(finding: Finding, own: Sequence[Answer], in_words: bool) -> bool:
    """Whether all that found it have looked again; `own` are their answers."""
    if finding.validator == OF_ARTIFACT:
        # Every artifact has been checked for content faults.
        return True
    applied = [answer for answer in own if answer.verdict != "not_applicable"]
    has_gap = any(answer.is_missing or finding.rule in answer.partial for answer in own)
    # In our form, each judge of a validator says what became of the findings of all.
    may_stand_in = finding.rule == OF_JUDGE and not in_words
    named = {answer.validator for answer in applied}
    return (
        not has_gap
        and named.issuperset(finding.named_by)
        and (may_stand_in or len(applied) == len(own))
    )


def _may_be_meant(finding: Finding, own: Sequence[Answer], in_words: bool) -> bool:
    """Whether what its reviewers found may mean it.

    A reviewer that answers in words may have worded it otherwise, unless it has a key; and where
    nothing tells what was found, as after an exit code alone, it can be anything.
    """
    if finding.rule == OF_JUDGE and not in_words:
        return False
    is_rejected = any(answer.verdict != "pass" for answer in own)
    found = (one for answer in own for one in answer.findings if one.rule == finding.rule)
    is_untold = finding.identified and any(not one.identified for one in found)
    return is_untold or (in_words and is_rejected and not finding.key)


def attribute(findings: Iterable[Finding], origins: Origins, author: str) -> tuple[Finding, ...]:
    """The findings in an author's artifact, each with its origins; without any, with the default.

    A finding that names a state after the author goes to the author.
    """
    return tuple(
        finding.replace(
            origins=origins.of_finding(finding.origins, author), defaulted=not finding.origins
        )
        for finding in findings
    )


def earliest(findings: Iterable[Finding], origins: Origins) -> str | None:
    """The earliest origin of blocking findings; None without any, or without declared origins."""
    found = (origin for finding in findings if finding.blocking for origin in finding.origins)
    return next(iter(origins.in_order(found)), None)


def has_stalled(earlier: Rounds, now: Report, version: Version, stall: int) -> bool:
    """Whether revising made no progress.

    True if the work equals that of an earlier attempt; if the artifact is not all of the work,
    everything that blocked then has to block now as well. True also if for some period p the last
    `stall`·p sets of blocking findings repeat with period p.
    """
    ids, blocked_by = what_blocks(now)
    if version.digest:
        same = (entry for entry in earlier if entry.report.work == version.digest)
        if any(version.is_whole or entry.blocking_ids <= ids for entry in same):
            return True
    if len(earlier) + 1 < stall or blocked_by not in [e.blocked_by for e in earlier]:
        return False
    sets = [blocked_by, *(entry.blocked_by for entry in reversed(earlier))]
    periods = range(1, len(sets) // stall + 1)
    return any(all(map(eq, islice(sets, (stall - 1) * p), islice(sets, p, None))) for p in periods)


def combine_samples(
    samples: Sequence[Answer], combine: Literal["majority", "strictest"], levels: Severities
) -> Answer:
    """The answer of a judge that was asked several times, with the findings of the winning side.

    It fails if half of all samples fail, or one if the strictest counts. The score is the median,
    the lower one of two in the middle. One sample is its own answer.
    """
    if len(samples) == 1:
        return samples[0]
    against = [sample for sample in samples if sample.verdict == "fail"]
    missing = [sample for sample in samples if sample.is_missing]
    summary = f"{len(against)} of {len(samples)} samples {'fails' if len(against) == 1 else 'fail'}"
    summary += f", {len(missing)} gave no verdict" if missing else ""
    needed = 1 if combine == "strictest" else (len(samples) + 1) // 2
    if len(against) >= needed:
        return _combine(against, samples, summary, levels)
    if missing:
        worst = min(missing, key=_rank_of_error)
        return worst.replace(reason=f"{summary}: {worst.reason}", resume_at=latest_resume(missing))
    approving = [sample for sample in samples if sample.verdict != "fail"]
    return _combine(approving, samples, summary, levels)


def confirm(answer: Answer, second: Answer, levels: Severities) -> Answer:
    """A failing answer combined with a second opinion.

    If the second opinion fails too, the result fails with the findings of both; if it does not,
    they are warnings; if it is missing, so is the result.
    """
    first = f"{answer.reason}; " if answer.reason else "it fails, and "
    both = (answer, second)
    if second.is_missing:
        reason = f"{first}the second opinion is missing: {second.reason}"
        return second.replace(reason=reason)
    if second.verdict == "fail":
        return _combine(both, both, f"{first}a second opinion confirms it", levels)
    reason = f"{first}a second opinion does not confirm it"
    return _combine((as_advice(answer, levels), second), both, reason, levels)


def _combine(
    winning: Sequence[Answer], given: Sequence[Answer], reason: str, levels: Severities
) -> Answer:
    scores = [answer.score for answer in given if answer.score is not None]
    score = median_low(scores) if scores else None
    first = winning[0].replace(reason=reason, score=score)
    return with_findings(first, merge_findings(winning, levels))
