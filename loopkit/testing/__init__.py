"""Testing machines: cases of scenario files, played offline and compared with what they expect.

```python
suite = load_suite(Path("plan_review.scenario.yaml"))
for name in suite.names:
    result = run_case(suite, name)
    assert result.passed, result.text
```
"""

from loopkit.testing.coverage import Coverage, Tally, coverage_text
from loopkit.testing.expectations import run_case
from loopkit.testing.playing import Run, play
from loopkit.testing.suites import CaseResult, Failure, Machines, Suite, load_suite

__all__ = [
    "CaseResult", "Coverage", "Failure", "Machines", "Run", "Suite", "Tally",
    "coverage_text", "load_suite", "play", "run_case",
]  # fmt: skip
