"""Agents in Markdown files: what reaches models and programs, and what is told of broken files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import read_front_matter
from loopkit.drive.stored_runs import file_if_changed
from loopkit.engine.events import Intended
from loopkit.language.agents import CommandAgent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load, load_resolved
from loopkit.machine.inputs import complete_input
from loopkit.views.plan.planned import plan_of
from tests.recording import assert_same, taped
from tests.support import Desk, Played, published_faults, scenario

CODER = """---
name: senior-coder
description: >
  Writes code,
  and its tests.
tools: Read, Grep,Edit
model: opus
---

You write code.

---
Never guess: {name} is no template.
"""
BODY = "You write code.\n\n---\nNever guess: {name} is no template."
OPUS = "anthropic/claude-opus-4-5"
MACHINE = """
loopkit: 1
models: {opus: anthropic/claude-opus-4-5}
agents:
  coder: AGENT
states:
  draft:
    agent: coder
    prompt: "Write {{ schema }}it."
    output: code
    on_error: {content: failed}
    next: done
  done: {final: success, result: code}
  failed: {final: failure}
"""
ALONE = MACHINE.replace("AGENT", "{file: agents/coder.md}")
PROGRAM = MACHINE.replace(
    "AGENT",
    """
    file: agents/coder.md
    command: [sh, -c, 'printf "%s|" "$@"; cat', sh, --allowed, "{{ agent.tools | join(',') }}"]
    stdin: "{{ system }}|{{ prompt }}"
""",
)


def written(desk: Desk, machine: str = ALONE, file: str = CODER) -> Path:
    desk.write("agents/coder.md", file)
    return desk.write("machine.yaml", machine)


def model_agent(desk: Desk, machine: str = ALONE, file: str = CODER) -> ModelAgent:
    agent = load(written(desk, machine, file)).machine.agents["coder"]
    assert isinstance(agent, ModelAgent)
    return agent


def told(desk: Desk, machine: str, file: str) -> list[Problem]:
    desk.write("agents/coder.md", file)
    return desk.problems(machine)


def at(problem: Problem) -> tuple[str, str, int, int]:
    assert problem.span is not None
    place = problem.span
    return problem.code, Path(place.file).name, place.line, place.column


def test_a_model_is_sent_the_text_of_the_file_and_is_the_one_that_the_table_names(
    desk: Desk,
) -> None:
    """S1.5: the text below the front matter is the system prompt, the model goes by its name."""
    run = desk.play(written(desk), scenario(agents={"coder": ["Done."]}))
    [asked] = run.asked("coder")
    assert [(m.role, m.content) for m in asked.messages] == [
        ("system", BODY),
        ("user", "Write it."),
    ]
    assert [event.model for event in run.of(Intended)] == [OPUS]
    assert model_agent(desk).description == "Writes code, and its tests.\n"


def test_a_program_is_told_the_text_and_the_tools_of_the_file(desk: Desk) -> None:
    """S1.5, S1.31: beside `command`, the text is `system` and the tools are `agent.tools`."""
    run = desk.play(written(desk, PROGRAM))
    assert run.result["code"] == f"--allowed|Read,Grep,Edit|{BODY}|Write it."


def test_a_program_that_judges_is_told_the_text_of_its_file(desk: Desk) -> None:
    """S1.31: the agent's body is a name of the validator's prompt."""
    says = 'case "$0" in *strict*) v=fail;; *) v=pass;; esac; echo VERDICT: $v'
    machine = f"""
loopkit: 1
agents:
  critic: {{file: agents/coder.md, command: [sh, -c, '{says}', "{{{{ system }}}}"]}}
states:
  draft: {{render: A plan., output: plan, next: check}}
  check:
    validate: plan
    by: [{{judge: critic, rubric: [Good.], verdict: {{pattern: 'VERDICT. (\\w+)'}}}}]
    transitions: [{{guard: valid, target: done}}, {{target: failed}}]
  done: {{final: success}}
  failed: {{final: failure}}
"""
    assert desk.play(written(desk, machine, "---\n---\nBe kind.")).outcome == "done"
    assert desk.play(written(desk, machine, "---\n---\nBe strict.")).outcome == "failed"


def test_what_the_machine_says_itself_wins(desk: Desk) -> None:
    own = "{file: agents/coder.md, model: openai/gpt-5, system: Be brief., description: Mine.}"
    agent = model_agent(desk, MACHINE.replace("AGENT", own))
    assert (agent.model, agent.system, agent.description) == (
        ("openai/gpt-5",),
        "Be brief.",
        "Mine.",
    )
    program = PROGRAM.replace("stdin:", "tools: [Bash]\n    stdin:")
    assert "--allowed|Bash|" in desk.play(written(desk, program)).result["code"]


def test_a_program_may_have_its_text_and_tools_without_a_file(desk: Desk) -> None:
    own = 'system: "Be brief."\n    tools: [Read, Edit]'
    run = desk.play(PROGRAM.replace("file: agents/coder.md", own))
    assert run.result["code"] == "--allowed|Read,Edit|Be brief.|Write it."


@pytest.mark.parametrize(
    ("written_so", "read"),
    [
        ("description: >\n  Folded\n  text.\n", "Folded text.\n"),
        ("description: |-\n  Kept\n  lines: two.\n", "Kept\nlines: two."),
        ("description: 'Quoted: it''s --- fine.'\n", "Quoted: it's --- fine."),
        ('description: "---\\nEscaped."\n', "---\nEscaped."),
        ("description: >-\n  ---\n\n  More.\n", "---\nMore."),
        ("description:\n", ""),
        ("# only a comment\n", ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_front_matter_is_read_as_yaml_whatever_its_line_ends(
    desk: Desk, written_so: str, read: str, ending: str, mark: str
) -> None:
    """S1.6: folded and quoted texts, `---` in values and in the body, CRLF, a byte order mark."""
    text = f"{mark}---\nmodel: opus\n{written_so}---\nOne.\n\n---\ntwo: 2\n---\n"
    (desk.folder / "agents").mkdir()
    (desk.folder / "agents/coder.md").write_bytes(text.replace("\n", ending).encode())
    agent = load(desk.write("machine.yaml", ALONE)).machine.agents["coder"]
    assert isinstance(agent, ModelAgent)
    assert (agent.description, agent.model) == (read, (OPUS,))
    assert agent.system == "One.\n\n---\ntwo: 2\n---"


@pytest.mark.parametrize(
    "tools", ["Read, Grep ,Edit,", "[Read, Grep, Edit]", "\n  - Read\n  - Grep\n  - Edit"]
)
def test_tools_are_a_list_or_one_text_with_commas(desk: Desk, tools: str) -> None:
    """S1.6: lists, as coding programs write them."""
    loaded = load(written(desk, PROGRAM, CODER.replace("Read, Grep,Edit", tools)))
    agent = loaded.machine.agents["coder"]
    assert isinstance(agent, CommandAgent)
    assert agent.tools == ("Read", "Grep", "Edit")


def test_a_ladder_in_a_file_goes_through_the_table(desk: Desk) -> None:
    file = CODER.replace("model: opus", "model: [openai/gpt-5-mini, opus]")
    assert model_agent(desk, ALONE, file).model == ("openai/gpt-5-mini", OPUS)


def test_without_front_matter_the_whole_file_is_the_text_and_that_is_noted(desk: Desk) -> None:
    """S1.6: missing front matter is no error where the machine says the rest."""
    own = MACHINE.replace("AGENT", "{file: agents/coder.md, model: opus}")
    text = "You write code.\n---\nNever guess."
    assert model_agent(desk, own, f"{text}\n").system == text
    [noted] = told(desk, own, text)
    assert (noted.severity, at(noted)) == ("note", ("front-matter", "coder.md", 1, 1))
    [lacking] = told(desk, ALONE, text)
    assert (lacking.severity, at(lacking)) == ("error", ("missing-field", "coder.md", 1, 1))


def test_foreign_keys_are_noted_where_they_stand_and_ignored(desk: Desk) -> None:
    file = CODER.replace("model: opus", "model: opus\ncolor: blue\nsystem: No.\ntimeout: 1s")
    noted = [p for p in told(desk, ALONE, file) if p.code == "ignored-key"]
    assert [at(problem)[2:] for problem in noted] == [(6, 1), (8, 1), (9, 1), (10, 1)]
    assert {problem.severity for problem in noted} == {"note"}
    agent = model_agent(desk, ALONE, file)
    assert (agent.system, agent.timeout) == (BODY, 600)


@pytest.mark.parametrize("name", ["system", "prompt", "schema", "render"])
def test_an_agent_with_a_file_may_have_any_name(desk: Desk, name: str) -> None:
    machine = ALONE.replace("coder: {", f"{name}: {{").replace("agent: coder", f"agent: {name}")
    desk.write("agents/coder.md", CODER)
    run = desk.play(machine, scenario(agents={name: ["Done."]}))
    assert run.asked(name)[0].messages[0].content == BODY


def test_what_is_stored_has_the_text_so_that_a_run_goes_on_without_the_file(desk: Desk) -> None:
    desk.in_memory = False
    script = scenario(agents={"coder": [[{"fault": "authentication"}, "Done."]]})
    stopped = desk.play(written(desk), script)
    (desk.folder / "agents/coder.md").unlink()
    run = desk.resume(stopped.state.run)
    assert run.outcome == "done"
    [asked] = run.asked("coder")
    assert asked.messages[0].content == BODY


def test_the_file_is_part_of_the_digest(desk: Desk) -> None:
    first = load(written(desk))
    assert load(written(desk)).digest == first.digest
    assert load_resolved(first.resolved) == first.machine
    files = json.loads(first.resolved)["files"]
    assert [Path(name).name for name in files] == ["coder.md", "machine.yaml"]
    # Also where nothing of the change reaches the agent.
    assert load(written(desk, ALONE, CODER + "\n")).digest != first.digest


def test_a_plan_has_the_model_of_the_file_and_its_text_in_the_estimate(desk: Desk) -> None:
    inline = f"{{model: {OPUS}, system: {json.dumps(BODY)}}}"
    plain = load(desk.write("machine.yaml", MACHINE.replace("AGENT", inline))).machine
    named = load(written(desk)).machine
    assert plan_of(named, {}).asked == plan_of(plain, {}).asked
    assert plan_of(named, {}).asked[0].who == (OPUS,)


def test_a_recorded_run_of_an_agent_with_a_file_plays_the_same(desk: Desk) -> None:
    run = desk.play(written(desk), scenario(agents={"coder": ["Done."]}))
    assert_same(taped(desk, run), run)


def test_the_published_schema_wants_a_model_where_there_is_no_file() -> None:
    def faults(agent: str) -> int:
        states = {"a": {"agent": "coder", "prompt": "x", "next": "b"}, "b": {"final": "success"}}
        machine = {"loopkit": 1, "agents": {"coder": json.loads(agent)}, "states": states}
        return len(published_faults(machine))

    assert faults('{"file": "a.md"}') == 0
    assert faults('{"file": "a.md", "command": ["x"], "tools": "Read, Edit"}') == 0
    assert faults('{"system": "x"}') == 1
    assert faults('{"file": "a.md", "tools": ["Read"]}') == 1


def test_states_may_be_called_agent_and_system_where_no_program_knows_these_names(
    desk: Desk,
) -> None:
    machine = ALONE.replace("draft:", "agent:").replace("output: code", "output: system")
    machine = machine.replace("result: code", "result: system")
    desk.write("agents/coder.md", CODER)
    run: Played = desk.play(machine, scenario(agents={"coder": ["Done."]}))
    assert run.result == {"system": "Done."}


def test_a_text_is_parted_in_time_that_grows_with_its_length() -> None:
    """A line of blanks is no mark, however many there are."""
    text = "---\n" + (" " * 2000 + "\n") * 400 + "# x\n" * 1000
    with pytest.raises(ProblemsFound):
        read_front_matter(text, "a.md")
    assert read_front_matter("---\n" + "#\n" * 200_000 + "---\nText", "a.md").body == "Text"


def test_a_file_that_has_changed_since_the_run_began_is_told(desk: Desk) -> None:
    machine = written(desk)
    stored = load(machine).resolved
    assert file_if_changed(stored, machine) is None
    desk.write("agents/coder.md", CODER.replace("Never guess", "Always ask"))
    assert file_if_changed(stored, machine) == machine
    desk.write("agents/coder.md", CODER.replace("senior-coder", "coder"))
    assert file_if_changed(stored, machine) is None


FOLDER = """
loopkit: 1
input: {task: {id: int, ...: any}}
agents:
  folder:
    path: agents
    command: [sh, -c, 'printf "%s" "$1"', sh, "{{ agent.tools | join(',') }}: {{ system }}"]
    price_per_run: 0
  senior_coder: {tools: Bash}
states:
  build: {agent: CHOICE, prompt: Do it., on_error: {content: failed}, next: again}
  again:
    transitions: [{guard: cap_reached, target: done}, {revise: build, max: 1, feedback: Again.}]
  done: {final: success, result: build}
  failed: {final: failure}
"""
INSPECTOR = """---
name: pipe-inspector
description: "Reads the result of a task: what can be run,
  and what cannot. Changes nothing."
tools:
  - Read
  - Grep
model: sonnet
---
You inspect.
"""
OTHERWISE = FOLDER.replace("CHOICE", "{from: input.task.agent, else: senior_coder}")


@pytest.mark.parametrize(
    ("word", "agent", "told", "result"),
    [
        ("Pipe-Inspector", "pipe_inspector", "", "Read,Grep: You inspect."),
        ("pipe_inspector", "pipe_inspector", "", "Read,Grep: You inspect."),
        ("guru", "senior_coder", "guru", f"Bash: {BODY}"),
        (None, "senior_coder", "", f"Bash: {BODY}"),
    ],
)
def test_each_file_of_a_folder_is_an_agent_and_a_word_without_one_is_for_another(
    desk: Desk, word: str | None, agent: str, told: str, result: str
) -> None:
    """S1.5, S1.8: what is written beside the folder wins; an unknown word is told once."""
    desk.write("agents/Pipe-Inspector.md", INSPECTOR)
    desk.write("agents/senior-coder.md", CODER)
    desk.write("agents/notes.txt", "No agent.")
    machine = desk.write("machine.yaml", OTHERWISE)
    given = {"agent": word} if word is not None else {}
    run = desk.play(machine, inputs={"task": {"id": 1, **given}})
    assert (run.outcome, run.result["build"]) == ("done", result)
    assert [(e.agent, e.instead_of) for e in run.of(Intended)] == [(agent, told), (agent, "")]
    said = load(machine).machine.agents["pipe_inspector"].description
    assert said == "Reads the result of a task: what can be run, and what cannot. Changes nothing."
    assert [p.code for p in desk.problems(OTHERWISE) if p.severity != "note"] == []


def test_a_list_of_words_names_the_agents_of_a_choice(desk: Desk) -> None:
    desk.write("agents/pipe-inspector.md", INSPECTOR)
    desk.write("agents/senior-coder.md", CODER)
    text = FOLDER.replace("CHOICE", "{from: input.task.agent, of: [pipe-inspector]}")
    text = text.replace("...: any", "agent: str")
    machine = load(desk.write("machine.yaml", text)).machine
    assert complete_input(machine, {"task": {"id": 1, "agent": "pipe-inspector"}})
    with pytest.raises(InvalidInput, match="no agent for `senior-coder`"):
        complete_input(machine, {"task": {"id": 1, "agent": "senior-coder"}})
