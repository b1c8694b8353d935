"""Cases that drive a machine where no case has driven it yet, for a person to complete.

```python
suggestions = suggest(suite, covered)
print(as_cases(suggestions))
```
"""

from loopkit.testing.suggesting.drafts import empty_suite
from loopkit.testing.suggesting.search import Suggestion, Suggestions, suggest
from loopkit.testing.suggesting.shown import as_cases, as_file

__all__ = ["Suggestion", "Suggestions", "as_cases", "as_file", "empty_suite", "suggest"]
