"""Testing machines: cases of scenario files, played offline and compared with what they expect.

```python
suite = load_suite(Path("plan_review.scenario.yaml"))
for name in suite.names:
    result = run_case(suite, name)
    assert result.passed, result.text
```
"""

from loopkit.scenario.cases import SUFFIX, cases_of
from loopkit.testing.coverage import Coverage, Tally, coverage_text
from loopkit.testing.coverage import data as coverage_data
from loopkit.testing.expectations import run_case
from loopkit.testing.playing import Run, play
from loopkit.testing.suites import (
    CaseResult,
    Failure,
    Machines,
    NotAnExpression,
    Selection,
    Suite,
    junit_xml,
    load_suite,
    scenario_files,
    selection,
)

__all__ = [
    "SUFFIX",
    "CaseResult",
    "Coverage",
    "Failure",
    "Machines",
    "NotAnExpression",
    "Run",
    "Selection",
    "Suite",
    "Tally",
    "cases_of",
    "coverage_data",
    "coverage_text",
    "junit_xml",
    "load_suite",
    "play",
    "run_case",
    "scenario_files",
    "selection",
]
