"""kill -9 at any instant while a run goes back to the best version of a folder."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crash.points import SAME, killed_at_points

AGENT = """cat > .prompt; n=1; until mkdir .call_$n 2>/dev/null; do n=$((n + 1)); done
touch call_$n
if [ -e kill_at ] && [ $n = $(cat kill_at) ]; then kill -9 $PPID; exit 1; fi
case $(cat .prompt) in
*'Revision 2'*) [ -e src/seen ] || cat src/plan > src/seen; echo good > src/plan;;
*'Revision 1'*) echo worse > src/plan; touch src/more;;
*) echo bad > src/plan;;
esac"""
MACHINE = f"""
loopkit: 1
workspace: {{path: ., isolate: copy}}
agents: {{coder: {{command: {json.dumps(["sh", "-c", AGENT])}, on_in_doubt: retry}}}}
states:
  code: {{agent: coder, prompt: Plan., output: {{name: fix, folder: src}}, next: test}}
  test:
    validate: fix
    by: [{{matches: '\\+good', message: It is bad.}}, {{not_matches: more, message: Less.}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: code, max: 3, from: best}}
      - {{target: failed}}
  done: {{final: success, result: fix}}
  failed: {{final: failure, result: fix}}
"""


@pytest.fixture(scope="module")
def told(every: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the host tells of the unharmed run and of each point, and the folder of each."""
    folder = tmp_path_factory.mktemp("crash")
    return folder / "work", killed_at_points(folder, MACHINE, every)


def test_a_run_that_is_killed_anywhere_goes_on_from_the_best_version(every: int, told: Any) -> None:
    work, [unharmed, *points] = told
    assert (unharmed["outcome"], unharmed["attempts"]["code"]) == ("done", 3)
    assert len(points) > 20 / every
    ended = [point for point in points if point["outcome"]]
    assert len(ended) > len(points) / 2
    for point in (unharmed, *ended):
        assert {key: point[key] for key in SAME} == {key: unharmed[key] for key in SAME}, point
        files = {path.name: path.read_text() for path in (work / point["point"] / "src").iterdir()}
        assert files == {"plan": "good\n", "seen": "bad\n"}, point
