"""Suggested cases for what no case covers yet, for a person to complete.

```python
suggestions = suggest(suite, covered)
print(suggestions.as_cases)
```
"""

from loopkit.testing.suggesting.search import Suggestions, empty_suite, suggest

__all__ = ["Suggestions", "empty_suite", "suggest"]
