"""Testing machines: the cases of scenario files, played offline and held against what they expect.

```python
suite = load_suite(Path("plan_review.scenario.yaml"))
for name in suite.names:
    result = run_case(suite, name)
    assert result.passed, result.text
```
"""

from loopkit.testing.files import scenario_files
from loopkit.testing.judging import judge, run_case
from loopkit.testing.junit import junit_xml
from loopkit.testing.playing import Run, play
from loopkit.testing.results import CaseResult, Failure
from loopkit.testing.selection import NotAnExpression, Selection, selection
from loopkit.testing.suites import SUFFIX, Machines, Suite, load_suite
from loopkit.testing.trace import Trace, trace

__all__ = [
    "SUFFIX",
    "CaseResult",
    "Failure",
    "Machines",
    "NotAnExpression",
    "Run",
    "Selection",
    "Suite",
    "Trace",
    "judge",
    "junit_xml",
    "load_suite",
    "play",
    "run_case",
    "scenario_files",
    "selection",
    "trace",
]
