"""Suggested cases for what no case covers yet, for a person to complete.

```python
suggestions = suggest(suite, covered)
print(as_cases(suggestions))
```
"""

from loopkit.testing.suggesting.search import Suggestion, Suggestions, empty_suite, suggest
from loopkit.testing.suggesting.shown import as_cases, as_file

__all__ = ["Suggestion", "Suggestions", "as_cases", "as_file", "empty_suite", "suggest"]
