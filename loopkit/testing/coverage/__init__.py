"""Coverage of a machine by its cases: states, transitions, caps of revise edges reached.

```python
tally = Tally()
for name in suite.names:
    run_case(suite, name, lambda run, name=name: tally.add(suite, name, run))
print(shown(tally.coverage()))
```
"""

from loopkit.testing.coverage.declared import goals_of
from loopkit.testing.coverage.measured import (
    Count,
    Coverage,
    MachineCoverage,
    Measured,
    Status,
    Tally,
    impossible_goals,
)
from loopkit.testing.coverage.reached import Reached, reached
from loopkit.testing.coverage.shown import data, percent, shown
from loopkit.testing.coverage.words import line, words

__all__ = [
    "Count",
    "Coverage",
    "MachineCoverage",
    "Measured",
    "Reached",
    "Status",
    "Tally",
    "data",
    "goals_of",
    "impossible_goals",
    "line",
    "percent",
    "reached",
    "shown",
    "words",
]
