"""Coverage of a machine by its cases: states, transitions, caps of revise edges reached.

```python
tally = Tally()
for name in suite.names:
    run_case(suite, name, lambda run, name=name: tally.add(suite, name, run))
print(coverage_text(tally.coverage()))
```
"""

from loopkit.testing.coverage.coverage_report import coverage_text, data, percent
from loopkit.testing.coverage.goals import goal_line, goal_text, goals_of
from loopkit.testing.coverage.measured import (
    Coverage,
    MachineCoverage,
    Measured,
    Tally,
    impossible_goals,
)
from loopkit.testing.coverage.reached import Reached, collect_reached

__all__ = [
    "Coverage",
    "MachineCoverage",
    "Measured",
    "Reached",
    "Tally",
    "collect_reached",
    "coverage_text",
    "data",
    "goal_line",
    "goal_text",
    "goals_of",
    "impossible_goals",
    "percent",
]
