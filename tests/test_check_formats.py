"""`loopkit check` over files, folders and standard input, in every format."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from loopkit.checks.codes import CODES
from loopkit.cli import invoke as run
from loopkit.document.problems import Problem, Span
from loopkit.views.problems import FORMATS, Examined
from tests.support import CommandLine
from tests.warm import command

pytestmark = pytest.mark.usefixtures("own_folder")
SOUND = "loopkit: 1\nstates:\n  note: {render: A note., next: done}\n  done: {final: success}\n"
BROKEN = SOUND.replace("render", "rendr")
WARNED = SOUND.replace("loopkit: 1", "loopkit: 1\nlimits: {tool_calls: 1}")
NOTED = SOUND.replace("loopkit: 1", "loopkit: 1\ninput: {issue: str}")
TWICE = SOUND + "  note: {final: success}\n"
SCENARIO = "scenario: 1\n"


def put(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return path


def found_in(cli: CommandLine, *argv: str) -> Any:
    """What a format that is JSON says."""
    return json.loads(cli.ends("check", *argv)[1].out)


# -- what is checked ---------------------------------------------------------------------------


def test_of_a_folder_every_machine_is_checked_and_other_yaml_is_counted(cli: CommandLine) -> None:
    put("all/b.yaml", SOUND)
    put("all/deep/a.yaml", "# ours\n'loopkit': 1\n")
    put("all/deep/scenario.yaml", SCENARIO)
    put("all/notes.yaml", "text: |\n  loopkit: 1\n")
    put("all/.venv/hidden.yaml", BROKEN)
    put("all/venv/pyvenv.cfg", "")
    put("all/venv/lib/hidden.yaml", BROKEN)
    put("all/broken.yaml", BROKEN + "  : [\n")
    report = found_in(cli, "--format", "json", "all")
    assert report["files"] == ["all/b.yaml", "all/broken.yaml", "all/deep/a.yaml"]
    assert report["skipped"] == 2
    assert {problem["file"] for problem in report["problems"]} == {*report["files"][1:]}


def test_the_summary_counts_files_problems_and_what_was_skipped(cli: CommandLine) -> None:
    put("all/a.yaml", BROKEN)
    put("all/b.yaml", WARNED)
    put("all/scenario.yaml", SCENARIO)
    assert cli(1, "check", "all").err == "2 files: 1 error, 1 warning, 1 other YAML file skipped\n"


def test_a_file_that_is_named_twice_is_checked_once(cli: CommandLine) -> None:
    put("all/a.yaml", SOUND)
    assert found_in(cli, "--format", "json", "all/a.yaml", "all")["files"] == ["all/a.yaml"]


def test_a_folder_without_a_machine_is_wrong_usage(cli: CommandLine) -> None:
    put("all/scenario.yaml", SCENARIO)
    assert cli(2, "check", "all").err == "error: no machine file lies below `all`\n"


def test_a_file_that_is_named_is_checked_whatever_it_looks_like(cli: CommandLine) -> None:
    report = found_in(cli, "--format", "json", put("a.txt", "states: {}\n"), "nowhere.yaml")
    assert {p["file"]: p["code"] for p in report["problems"]}["nowhere.yaml"] == "unreadable-file"
    assert report["files"] == ["a.txt", "nowhere.yaml"]


def piped(content: bytes, *argv: str) -> subprocess.CompletedProcess[bytes]:
    line = command("-m", "loopkit", "check", *argv, "-")
    return subprocess.run(line, input=content, capture_output=True, check=False)


def test_a_problem_of_standard_input_is_shown_with_its_line() -> None:
    done = piped(BROKEN.encode())
    assert done.returncode == 1
    assert b"3 |   note: {rendr: A note., next: done}\n" in done.stdout


def test_standard_input_that_is_no_text_is_a_problem_and_no_bug() -> None:
    done = piped(SOUND.encode() + b"# \xff\n", "--format", "json")
    assert done.returncode == 1
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["code"], problem["file"], problem["line"]) == ("not-utf-8", "<stdin>", 5)


# -- exit codes --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("text", "plain", "strict"), [(SOUND, 0, 0), (NOTED, 0, 0), (WARNED, 0, 1), (BROKEN, 1, 1)]
)
def test_the_exit_code_is_the_same_in_every_format(
    form: str, text: str, plain: int, strict: int
) -> None:
    path = put("a.yaml", text)
    assert run(["check", "--format", form, path]) == plain
    assert run(["check", "--format", form, "--strict", path]) == strict


@pytest.mark.parametrize("form", ["text", "github"])
def test_nothing_is_printed_where_nothing_is_wrong(form: str, cli: CommandLine) -> None:
    assert cli(0, "check", "--format", form, put("a.yaml", SOUND)).out == ""


# -- json --------------------------------------------------------------------------------------


def test_a_problem_in_json_has_its_place_its_end_and_its_other_places(cli: CommandLine) -> None:
    report = found_in(cli, "--format", "json", put("a.yaml", TWICE))
    assert report == {
        "version": 1,
        "files": ["a.yaml"],
        "skipped": 0,
        "errors": 1,
        "warnings": 0,
        "notes": 0,
        "problems": [
            {
                "code": "duplicate-key",
                "severity": "error",
                "message": "the key `note` is written twice",
                "file": "a.yaml",
                "line": 5,
                "column": 3,
                "end": {"line": 5, "column": 7},
                "path": "",
                "help": "delete one of the two, or rename it",
                "also": [
                    {
                        "message": "first written here",
                        "file": "a.yaml",
                        "line": 3,
                        "column": 3,
                        "end": {"line": 3, "column": 7},
                    }
                ],
            }
        ],
    }


def test_a_problem_without_a_place_has_null_for_it() -> None:
    report = json.loads(FORMATS["json"](Examined((), (Problem("stuck", "it is"),))))
    (problem,) = report["problems"]
    assert {problem[key] for key in ("file", "line", "column", "end")} == {None}


# -- github ------------------------------------------------------------------------------------


def test_a_workflow_command_names_the_place_and_the_code(cli: CommandLine) -> None:
    argv = ("check", "--format", "github", put("a.yaml", WARNED), put("b.yaml", NOTED))
    first, second = cli(0, *argv).out.splitlines()
    assert first == (
        "::warning file=a.yaml,line=2,col=22,title=never-binds::no agent that writes has tools "
        "that it could call%0Ahelp: delete it"
    )
    assert second.startswith("::notice file=b.yaml,line=2,col=9,title=unused::")


def test_nothing_of_a_problem_can_end_its_workflow_command() -> None:
    span = Span("a,b:c%\n.yaml", 1, 1, 1, 2)
    problem = Problem("stuck", "50%: a, b\r\n::error::no", span, help="x\ny")
    (line,) = FORMATS["github"](Examined((), (problem,))).splitlines()
    place, _, text = line.removeprefix("::error ").partition("::")
    assert place == "file=a%2Cb%3Ac%25%0A.yaml,line=1,col=1,title=stuck"
    assert text == "50%25: a, b%0D%0A::error::no%0Ahelp: x%0Ay"


# -- sarif -------------------------------------------------------------------------------------

LEVELS = {"none", "note", "warning", "error"}


def sarif_of(*problems: Problem) -> Any:
    files = tuple({problem.span.file for problem in problems if problem.span})
    return json.loads(FORMATS["sarif"](Examined(files, problems)))


def test_a_sarif_log_has_what_the_standard_requires(cli: CommandLine) -> None:
    paths = [put("a.yaml", BROKEN), put("b.yaml", TWICE), put("c.yaml", WARNED)]
    log = found_in(cli, "--format", "sarif", *paths)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = log["runs"]
    driver = only["tool"]["driver"]
    assert driver["name"] == "loopkit"
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    assert [entry["location"]["uri"] for entry in only["artifacts"]] == paths
    assert len(only["results"]) == 3
    for result in only["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        for location in [*result["locations"], *result.get("relatedLocations", [])]:
            assert_region(location["physicalLocation"])
    assert only["columnKind"] == "unicodeCodePoints"


def assert_region(physical: Any) -> None:
    region = physical["region"]
    assert 1 <= region["startLine"] <= region["endLine"]
    assert min(region["startColumn"], region["endColumn"]) >= 1
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", physical["artifactLocation"]["uri"])


def test_each_rule_of_a_sarif_log_says_what_it_means_and_where_to_read_on(cli: CommandLine) -> None:
    log = found_in(cli, "--format", "sarif", put("b.yaml", TWICE))
    (rule,) = log["runs"][0]["tool"]["driver"]["rules"]
    assert rule["id"] == "duplicate-key"
    assert rule["shortDescription"]["text"] == CODES["duplicate-key"].meaning
    assert "docs/reference/checks.md#duplicate-key" in rule["help"]["markdown"]


@pytest.mark.parametrize("file", ["a b.yaml", "a:b.yaml", "ä%20.yaml", "<stdin>"])
def test_a_file_is_named_by_a_relative_reference_in_sarif(file: str) -> None:
    log = sarif_of(Problem("stuck", "it is", Span(file, 1, 1, 1, 2)))
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    uri = location["artifactLocation"]["uri"]
    assert unquote(uri) == file
    assert ":" not in uri


def test_an_absolute_path_is_a_file_address_in_sarif(tmp_path: Path) -> None:
    log = sarif_of(Problem("stuck", "it is", Span(str(tmp_path / "a.yaml"), 1, 1, 1, 2)))
    assert log["runs"][0]["artifacts"][0]["location"]["uri"] == (tmp_path / "a.yaml").as_uri()
