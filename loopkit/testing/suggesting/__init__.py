"""The ways to where no case has driven a machine yet, as cases for a person to write.

```python
suggestions = suggest(suite, covered)
print(as_cases(suggestions))
```
"""

from loopkit.testing.suggesting.search import Suggestion, Suggestions, empty_suite, suggest
from loopkit.testing.suggesting.shown import as_cases, as_file

__all__ = ["Suggestion", "Suggestions", "as_cases", "as_file", "empty_suite", "suggest"]
