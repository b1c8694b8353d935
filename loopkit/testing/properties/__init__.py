"""Properties of every run of a machine, tested on behaviours that hypothesis makes up.

```python
from hypothesis import given
from loopkit.testing import properties

@given(properties.behaviours("machines/plan_review.yaml"))
def test_plan_review(behaviour):
    behaviour.holds()
```
"""

from loopkit.testing.properties.behaviour import Behaviour, BrokenProperty, behaviours

__all__ = ["Behaviour", "BrokenProperty", "behaviours"]
