"""`loopkit plan`: what a run would do and cost, told without doing or spending any of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopkit.cli.terminal import wrap
from tests.machines import loop
from tests.support import ROOT, CommandLine

PLAN_REVIEW = str(ROOT / "machines/plan_review.yaml")
MACHINE = """
loopkit: 1
description: Draft and judge.
input: {topic: str, rounds: {type: int, minimum: 0, maximum: 3}}
limits: {revisions: input.rounds, cost_usd: 0.5}
agents:
  writer:
    model: [openai/gpt-5-mini, openai/gpt-5]
    params: {max_tokens: 1000}
    retry: {attempts: 2}
  critic: {command: [touch, asked], price_per_run: 0.01, retry: {attempts: 1}}
validators:
  lint: {command: [touch, "{{ input.topic }}"]}
  quality: {judge: critic, rubric: [Good.], reask: 0}
states:
  prepare: {run: [touch, prepared], next: draft}
  draft: {agent: writer, prompt: "Write about {{ input.topic }}.", output: text, next: judge}
  judge:
    validate: text
    by: [lint, quality]
    transitions: [{guard: valid, target: polish}, {revise: draft}, {target: failed}]
  polish: {agent: writer, prompt: "Polish {{ text }}.", on_error: {content: failed}, next: done}
  done: {final: success, result: text}
  failed: {final: failure}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")


def planned(cli: CommandLine, *options: str) -> str:
    return cli(0, "plan", "machine.yaml", *options).out


def row(out: str, name: str) -> list[str]:
    """The figures in one line of the table of the most that could be."""
    lines = map(str.strip, out.partition("The most that could be:")[2].splitlines())
    return next(line for line in lines if line.startswith(f"{name} ")).removeprefix(name).split()


def joined(out: str) -> str:
    """The output without its line breaks."""
    return " ".join(out.split())


def test_the_least_and_the_most_are_told_for_the_given_input(cli: CommandLine) -> None:
    # One draft, one judge, one polish; with r revisions r + 1 of the first two.
    out = planned(cli, "--set", "topic=tea", "--set", "rounds=2")
    assert row(out, "agent runs") == ["3", "7"]
    # Two tries for each of four writings, one try for each of three judgements and of
    # what may be asked about each.
    assert row(out, "calls")[:2] == ["3", "14"]


def test_what_a_resume_adds_is_told_beside_the_most(cli: CommandLine) -> None:
    assert "A resume renews the tries" in planned(cli)


def test_an_input_that_is_not_given_is_taken_at_its_dearest(cli: CommandLine) -> None:
    assert row(planned(cli), "agent runs") == ["3", "9"]
    assert "input.rounds = 3" not in planned(cli)
    paths = planned(cli, "--paths")
    assert "input.rounds = 3" in paths
    assert re.search(r"^6 states, \d+ configurations; every run ends$", paths, re.MULTILINE)


def test_calls_may_cost_their_dearest_rung_and_the_limit_stands_beside(cli: CommandLine) -> None:
    out = planned(cli, "--set", "rounds=0")
    # gpt-5: 272,000 tokens in at 1.25 USD a million, 1,000 out at 10.
    assert "openai/gpt-5-mini → openai/gpt-5  $0.3500" in out
    # Two tries for each of two writings, and a judgement that may contradict itself at a cent.
    assert row(out, "calls") == ["3", "6", "$1.42"]
    assert row(out, "at judge") == ["2", "$0.0200"]
    assert row(out, "of writer") == ["4", "$1.40"]
    assert "critic  touch asked  " in out
    assert "`cost_usd` ends a run at $0.5000." in joined(out)
    assert "`cost_usd` ends a run at $0.2000." in joined(planned(cli, "--max-cost", "0.2"))
    within = planned(cli, "--max-cost", "2", "--set", "rounds=0")
    assert "ends a run at $2.00, which is above the most that could be." in joined(within)


UNBOUNDED = """
loopkit: 1
agents: {writer: {model: openai/ours, price: {input: 1, output: 2}, retry: {attempts: 1}}}
states:
  draft: {agent: writer, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_what_a_run_typically_costs_comes_first_and_where_nothing_bounds_it_the_key_that_would(
    cli: CommandLine,
) -> None:
    def told(*changes: tuple[str, str]) -> tuple[list[str], str]:
        """The amounts and keys in the order of the plan, and the plan."""
        text = UNBOUNDED
        for old, new in changes:
            text = text.replace(old, new)
        Path("machine.yaml").write_text(text, encoding="utf-8")
        out = planned(cli)
        return re.findall(r"\$\d+\.\d+|max_tokens(?=,)|limits\.tokens", out), joined(out)

    typical = "$0.0020"
    both = ["max_tokens", "limits.tokens"]
    found, out = told()
    assert found == [typical, *both, *both]
    assert "No limit of its cost holds a run; `cost_usd` in `limits:` or `--max-cost`" in out
    assert "add `max_tokens` to its `params:`" in out
    capped = ("2},", "2}, params: {max_tokens: 500000},")
    found, out = told(capped)
    assert found == [typical, "limits.tokens", "limits.tokens"]
    assert "add `tokens: 1000000` to `limits:`." in out
    found, out = told(capped, ("agents:", "limits: {tokens: 1000000}\nagents:"))
    assert found == [typical, "$2.00", "$2.00", "$2.00"]
    assert "`tokens` ends a run at 1,000,000 tokens, which cost at most $2.00." in out
    found, out = told(("agents:", "limits: {cost_usd: 3}\nagents:"))
    assert found == [typical, "$3.00", "$3.00", "$3.00"]


def test_codes_on_the_path_with_the_most_calls_are_told_as_guards_ask_for_them(
    cli: CommandLine,
) -> None:
    machine = MACHINE.replace(
        "{guard: valid, target: polish},", "{guard: '\"LATE\" in codes', target: polish},"
    )
    Path("machine.yaml").write_text(
        machine.replace("by: [lint, quality]", "by: [{max_chars: 9, code: LATE}, quality]"),
        encoding="utf-8",
    )
    out = planned(cli, "--paths")
    assert '(verdict = fail, "LATE" in codes)' in out
    assert "Held" not in out


def test_a_price_that_is_not_known_makes_the_cost_unknown_and_says_what_to_add(
    cli: CommandLine,
) -> None:
    text = MACHINE.replace("openai/gpt-5]", "openai/ours]").replace(", cost_usd: 0.5", "")
    Path("machine.yaml").write_text(text, encoding="utf-8")
    out = planned(cli)
    assert row(out, "calls")[2:] == ["price,", "limits.tokens"]
    assert "openai/gpt-5-mini → openai/ours  price, limits.tokens" in out
    assert "agent `writer` asks `openai/ours`" in joined(out)
    assert "or `--price writer=USD`, in USD for a million tokens" in joined(out)
    # Its cap is in the machine; all that is missing is the price.
    told = joined(planned(cli, "--price", "writer=2", "--set", "rounds=0"))
    assert "openai/gpt-5-mini → openai/ours limits.tokens" in told
    assert "Nothing bounds a prompt of `writer`, because the window of its model is not" in told


TIGHT = """
loopkit: 1
limits: {cost_usd: 0.2}
agents: {writer: {command: [cat], price_per_run: 0.25, retry: {attempts: 1}}}
states:
  draft: {agent: writer, prompt: Write., output: text, on_error: {content: failed}, next: done}
  done: {final: success, result: text}
  failed: {final: failure}
"""


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_cost_limit_of_the_command_line_that_no_call_fits_in_is_told_like_one_of_the_file(
    command: str, cli: CommandLine
) -> None:
    Path("machine.yaml").write_text(TIGHT, encoding="utf-8")

    def told(*options: str) -> str:
        return cli.ends(command, "machine.yaml", *options)[1].err

    of_the_file = told()
    assert "no call of `writer` fits into this limit" in of_the_file
    assert "limits: {cost_usd: 0.2}" in of_the_file
    too_low = told("--max-cost", "0.00001")
    assert "`writer` fits into `--max-cost 0.00001`: the smallest may take $0.2500" in joined(
        too_low
    )
    assert "raise it to `--max-cost 0.25` or more" in too_low
    # The limit of the file does not count then.
    assert "limits: {cost_usd: 0.2}" not in too_low
    assert "no-call-fits" not in told("--max-cost", "0.25")


def test_whether_a_call_fits_is_told_of_the_model_that_is_asked(cli: CommandLine) -> None:
    model = "writer: {model: openai/gpt-5-mini, params: {max_tokens: 90000}}"
    text = TIGHT.replace(
        "writer: {command: [cat], price_per_run: 0.25, retry: {attempts: 1}}", model
    )
    Path("machine.yaml").write_text(text, encoding="utf-8")

    def is_told(*options: str) -> bool:
        return "no call of `writer` fits" in cli(0, "plan", "machine.yaml", *options).err

    assert not is_told()
    assert is_told("--model", "writer=openai/gpt-5")
    assert is_told("--price", "writer=10")
    # One that fits is enough.
    Path("machine.yaml").write_text(
        text.replace("openai/gpt-5-mini", "[openai/gpt-5, openai/gpt-5-mini]"), encoding="utf-8"
    )
    assert not is_told()
    assert not is_told("--model", "writer=openai/gpt-5", "--price", "writer=1")
    # Nobody says how long its answers are, but they are not empty.
    Path("machine.yaml").write_text(
        text.replace("gpt-5-mini, params: {max_tokens: 90000}", "gpt-4").replace("0.2", "0.05"),
        encoding="utf-8",
    )
    assert is_told()


def test_what_is_less_than_a_cent_is_not_taken_for_nothing(cli: CommandLine) -> None:
    out = planned(cli, "--price", "writer=0.001", "--set", "rounds=0", "--set", "topic=tea")
    assert row(out, "at draft") == ["2", "$0.0005"]
    assert re.search(r"^  at draft +<\$0\.0001$", out, re.MULTILINE)


def test_other_models_are_planned_as_they_would_run(cli: CommandLine) -> None:
    out = planned(cli, "--model", "writer=ollama_chat/llama3", "--set", "rounds=0")
    assert row(out, "of writer") == ["4", "$0.00"]
    assert "draft writer ollama_chat/llama3 nothing" in joined(out)
    told = cli(2, "plan", "machine.yaml", "--model", "writr=openai/gpt-5").err
    assert "did you mean `writer`?" in told


def test_a_plan_fits_a_terminal_of_eighty_columns(cli: CommandLine) -> None:
    out = cli(0, "plan", PLAN_REVIEW).out
    assert max(len(row) for line in out.splitlines() for row in wrap(line, 80).split("\n")) <= 80


def test_first_prompts_and_commands_are_filled_in_as_far_as_the_input_goes(
    cli: CommandLine,
) -> None:
    out = planned(cli, "--set", "topic=green tea")
    assert "First prompt of draft:\n  Write about green tea." in out
    assert "judge · lint: touch 'green tea'" in out
    assert "First prompt of polish" not in out
    assert "First prompt" not in planned(cli)
    assert "judge · lint: touch {{ input.topic }}" in planned(cli)


def test_nothing_is_run_asked_or_stored(cli: CommandLine) -> None:
    planned(cli, "--set", "topic=tea", "--set", "rounds=1")
    assert [path.name for path in Path().iterdir()] == ["machine.yaml"]


def test_expected_values_are_exact_under_given_probabilities(cli: CommandLine) -> None:
    text = MACHINE.replace("by: [lint, quality]", "by: [quality]").replace("input.rounds,", "1,")
    Path("machine.yaml").write_text(text, encoding="utf-8")
    # Draft and judge once, half of the time twice, and three times out of four a polish.
    out = planned(cli, "--assume", "judge.valid=0.5")
    assert "  3.75 agent runs, 3.75 calls, " in out
    assert "  at draft: $" in out
    assert "  at judge: $0.0150\n" in out  # once, and half of the time twice, for a cent
    assert "  done: 75.0%\n" in out
    assert "  failed: 25.0%\n" in out


RAN = """
loopkit: 1
agents:
  writer: {command: [cat, answer], price_per_run: 0.25, retry: {attempts: 2, backoff: 1ms}}
validators: {form: {min_chars: 5}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: judge}
  judge:
    validate: text
    by: [form]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
"""


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("judge.valid", "is not of the form"),
        ("judge.valid=often", "`often` is not a number"),
        ("judge.valid=2", "a probability is from 0 to 1"),
        ("valid=0.5", "is not of the form"),
        ("judge.vald=0.5", "has no fact `vald`"),
        ("juge.valid=0.5", "juge"),
    ],
)
def test_a_probability_that_can_not_be_used_is_told(
    written: str, said: str, cli: CommandLine
) -> None:
    assert said in cli(2, "plan", "machine.yaml", "--assume", written).err


ASKED = loop(
    "[{matches: Tea, code: TEA}, {max_chars: 9, code: LONG}]",
    {"'\"LONG\" in codes'": "dropped", "valid": "ask"},
    "{target: dropped}",
    top="",
    draft="plan: {render: Tea.}",
    judge="check",
    ends="""
ask:
  human: Brew it?
  choices: [brew, drop]
  form: {how: quickly|in-a-pot}
  transitions:
    - {guard: choice == "brew" and how == "in-a-pot", target: brewed}
    - {target: dropped}
brewed: {final: success}
""",
)


def test_what_is_said_to_be_missing_can_be_assumed(cli: CommandLine) -> None:
    Path("machine.yaml").write_text(ASKED, encoding="utf-8")
    assumed: list[str] = []

    def said(*more: str) -> str:
        assumed.extend(f"--assume={text}" for text in more)
        return cli(2, "plan", "machine.yaml", *assumed).err

    assert 'write `"…" in codes`' in said("check.codes=0.5")
    assumed.clear()
    hint = said("check.valid=1", "ask.brew=0.5")
    assert '`ask.quickly` or `ask.how == "in-a-pot"`' in hint
    assert "the probability of `ask.brew and how" in said('ask.how == "in-a-pot"=0.5')
    out = planned(cli, *assumed, '--assume=ask.brew and how == "in-a-pot"=0.4')
    assert "  brewed: 40.0%\n  dropped: 60.0%\n" in out


def test_a_machine_with_errors_is_not_planned(cli: CommandLine) -> None:
    Path("machine.yaml").write_text(MACHINE.replace("guard: valid", "guard: vald"), "utf-8")
    assert "did you mean `valid`?" in cli(2, "plan", "machine.yaml").err


ONE_OF_EACH = loop(
    "[{min_chars: 10}]",
    {"valid": "done"},
    "{guard: attempt <= 1, revise: draft, max: 4}",
    "{target: failed}",
    top="""
limits: {tokens: 9}
agents: {writer: {model: openai/ours, price: 1, params: {max_tokens: 1}, retry: {attempts: 1}}}
""",
    draft="draft: {agent: writer, prompt: Write.}",
    judge="check",
    result="draft",
)


def test_one_of_a_kind_is_told_without_a_plural(cli: CommandLine) -> None:
    Path("machine.yaml").write_text(ONE_OF_EACH, encoding="utf-8")
    told = joined(planned(cli, "--answer-tokens", "1"))
    assert "answers of 1 token (`--answer-tokens`)" in told
    told += cli(0, "check", "machine.yaml").out
    assert "no run uses it up: a run makes at most 1 revision" in told
    assert re.findall(r"\b1 [a-z]+s\b", told) == []


# -- children ----------------------------------------------------------------------------------

TASK = """
loopkit: 1
input: {task: str, tries: {type: int, minimum: 0, maximum: 3, default: 1}}
agents:
  coder: {command: [touch, asked], price_per_run: 0.5, retry: {attempts: 2}}
  judge: {model: openai/gpt-5-mini, params: {max_tokens: 1000}, retry: {attempts: 1}}
states:
  build: {agent: coder, prompt: "Build {{ input.task }}. {{ feedback }}", next: check}
  check:
    validate: build
    by: [{judge: judge, rubric: [Good.], reask: 0}]
    transitions: [{guard: valid, target: ok}, {revise: build, max: input.tries}, {target: bad}]
  ok: {final: success, result: build}
  bad: {final: failure, result: build}
"""
PARENT = """
loopkit: 1
input: {tasks: [str]}
agents: {lead: {command: [touch, asked], price_per_run: 0.25, retry: {attempts: 1}}}
states:
  first: {machine: task.yaml, input: {task: Everything, tries: 0}, next: tasks}
  tasks:
    each: input.tasks
    as: task
    key: task
    max_items: 9
    parallel: 3
    serial: [build]
    machine: task.yaml
    input: {task: "{{ task }}"}
    transitions: [{guard: failed == 0, target: tell}, {target: bad}]
  tell: {agent: lead, prompt: "Tell of {{ tasks }}.", on_error: bad, next: done}
  done: {final: success, result: tell}
  bad: {final: failure}
"""


def planned_family(cli: CommandLine, *options: str) -> str:
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("machine.yaml").write_text(PARENT, encoding="utf-8")
    return planned(cli, *options)


def test_a_plan_counts_the_runs_that_its_states_start(cli: CommandLine) -> None:
    out = planned_family(cli)
    # A task with r revisions: (r + 1) · (2 + 2) calls and (r + 1) · 2 agent runs. The first one
    # may fail, with an empty answer that nobody judges.
    assert row(out, "agent runs") == [str(1 + 2 + 1), str(2 + 9 * 4 + 1)]
    assert row(out, "calls")[:2] == [str(1 + 2 + 1), str(4 + 9 * 8 + 1)]
    assert row(out, "at tasks")[0] == "72"
    assert row(out, "of tasks · coder") == ["36", "$18.00"]
    assert row(out, "of lead") == ["1", "$0.2500"]
    assert "`first` runs machine task.yaml. Each run:" in out
    assert (
        "`tasks` runs task.yaml for each task of input.tasks, 1 to 9 times, up to 3 at once" in out
    )


def test_a_plan_has_the_plan_of_the_runs_that_its_states_start(cli: CommandLine) -> None:
    _, first, each = re.split(r"^`\w+` runs .*$", planned_family(cli), flags=re.MULTILINE)
    # What is written as the input of a child is known of it.
    assert row(first, "calls")[:2] == ["2", "4"]
    assert row(each, "calls")[:2] == ["2", "8"]
    assert "First prompt of build:\n    Build Everything." in first
    assert "First prompt" not in each
    for part in (first, each):
        assert re.search(
            r"^    check · by\[0\] +judge +openai/gpt-5-mini +\$0\.\d+$", part, re.MULTILINE
        )


def test_a_plan_of_a_given_list_counts_its_items(cli: CommandLine) -> None:
    out = planned_family(cli, "--set-json", 'tasks=["a", "b"]')
    assert row(out, "calls")[:2] == [str(1 + 2 * 2 + 1), str(4 + 2 * 8 + 1)]
    assert "of input.tasks, 2 times, up to 3 at once" in out
    assert "`tasks` is taken to run `task` 2 times" in out


def test_a_run_typically_costs_what_the_runs_typically_do_that_it_starts(cli: CommandLine) -> None:
    out = planned_family(cli, "--set-json", 'tasks=["a", "b"]')
    table, _, rest = out.partition("What a run typically costs")[2].partition("Assumed")
    assert "`first` is taken to run `task` 1 time, each with the fewest revisions." in rest
    assert [line.split()[-1] for line in table.splitlines() if "calls" in line] == ["7"]
    [first, tasks] = (
        float(re.search(rf"at {name} +\$([\d.]+)", table)[1]) for name in ("first", "tasks")
    )
    assert tasks == pytest.approx(2 * first, rel=0.01)
    # The coder's price is declared, and the judge's call costs a little.
    assert 0.5 < first < 0.51


def test_a_limit_of_a_run_bounds_the_answers_of_those_that_it_starts(cli: CommandLine) -> None:
    free = PARENT.replace("agents: {lead", "limits: {agent_calls: 90}\nagents: {lead", 1)
    capped = PARENT.replace("agents: {lead", "limits: {cost_usd: 90}\nagents: {lead", 1)
    told = []
    for text in (free, capped):
        Path("task.yaml").write_text(TASK.replace(", params: {max_tokens: 1000}", ""))
        Path("machine.yaml").write_text(text)
        told.append("is asked for 16,384 tokens at most" in planned(cli))
    assert told == [False, True]
