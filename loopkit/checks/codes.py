"""Every code of a problem, in one table.

A row has the code; `warning` or `note` where it is no error, and `key` where its place is the key,
both as far as the check does not say otherwise; and its meaning, in the words of `docs/checks.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from loopkit.document.problems import Severity
from loopkit.values import Value

_ROWS = """\
unreadable-file | A file cannot be read, or an included file lies outside the folder.
not-utf-8 | A file is not UTF-8 text.
too-large | A file is larger than 1,000,000 bytes.
too-deep | Values are nested more than 64 levels deep.
too-many-values | A file has more than 200,000 keys and values after expanding aliases.
too-many-machines | More than 100 other machines are inside a machine.
too-many-problems | A file has more than 50 mistakes in its YAML; the rest was not read.
empty-file | A file is empty.
not-a-mapping | The root of a file is not a mapping.
several-documents | A second YAML document starts in a file.
several-roots | There is content after the end of the document.
front-matter | note | A Markdown file has no front matter, or front matter without an end.
ignored-key | note | A key in the front matter of an agent's file is not read.
conflict-marker | A merge conflict is unresolved.
forbidden-character | A character is not allowed in a text file.
odd-blank | A character looks like a space but is not one, so YAML reads it as text.
tab | The indentation contains a tab.
directive | The file starts with a YAML directive.
tag | A YAML tag is used.
indentation | The indentation of a line does not match any level above it.
missing-colon | A line is neither `key: value` nor a list item.
missing-space | The space after a colon is missing.
missing-separator | A comma or a closing bracket is missing.
unclosed-bracket | A bracket is not closed.
unclosed-quote | A quote is not closed.
text-after-quote | A text continues after its closing quote.
unknown-escape | A backslash precedes a character that has no escape.
unquoted-text | A text needs quotes, because YAML gives one of its characters a meaning.
unquoted-colon | A colon followed by a space turns a text into a key.
unquoted-comma | A comma inside `{ }` ends the text before it.
unquoted-bracket | A bracket inside `{ }` or `[ ]` cannot be part of text.
unquoted-template | A value starts with the braces of a template.
block-text | A block text after `|` or `>` is malformed.
syntax | YAML cannot read this, and no more specific code applies.
duplicate-key | A key is written twice.
non-text-key | A key is not a string.
unknown-alias | An alias has no anchor before it.
recursive-alias | An alias is inside the value that it refers to.
merge-not-mapping | `<<` merges something that is not a mapping.
unusable-number | A number is infinite, not a number, or does not fit into 64 bits.
missing-field | A required field is missing.
unknown-field | A field does not exist, or is not allowed here.
wrong-kind | A value has the wrong type for its field.
unknown-value | A value is not one of the allowed ones.
empty | key | A list or a mapping is empty.
string-too-short | A text is empty.
string-too-long | A text has more than 100,000 characters.
greater-than-equal | A number is below the minimum.
less-than-equal | A number is above the maximum.
less-than | A number is not below its limit.
bad-id | A name is not a valid id.
bad-duration | A duration has no unit, or an unknown one.
bad-command | The name of a program has its arguments in it.
bad-variable | A name is not that of an environment variable.
bad-bound | A value is not a number of revisions.
dead-reference | A `$ref` of a JSON Schema cannot be resolved.
bad-type | A type cannot be parsed.
bad-path | A path is malformed, or cannot lead to what it is for.
bad-source | The source of a lookup is neither a name nor a file.
bad-plugin | The name of a plug-in is in neither of the two known forms.
empty-range | The range of a count, a score or the number of items is empty.
strange-budget | A budget is given for a state to which the transition does not lead back.
two-directions | A lookup has both `cover` and `avoid`.
one-direction | A transition has both or neither of `target` and `revise`.
forward-only | A forward transition has a key that only revise edges take.
two-ways-out | A state has both `next` and `transitions`.
no-way-out | A state has neither `next` nor `transitions`.
two-works | A state has two keys that each make it a different kind of state.
unknown-rule | A rule has no key that identifies its kind.
unknown-tool | A tool has no key that identifies its kind, or is not one of the agent's.
bad-server | An MCP server is not described by either a command or a URL.
bad-server-tool | A tool of an MCP server is not written as `SERVER.TOOL`.
bad-digest | The digest of a tool of an MCP server is not a digest.
given-twice | A tool has an argument both from the machine and from the model.
unknown-extract | A field of a text has no key that says how to extract it.
unknown-severity | A severity is not declared.
unknown-name | A guard or a template uses a name that is not known at this place, or never has a \
value there.
unknown-filter | Templates do not have this filter or test.
bad-severities | The severities are not distinct levels, or their numbers do not rise.
no-blocking | Severities are declared, but not which of them block.
guard-syntax | A guard cannot be parsed.
guard-type | The two sides of a comparison do not fit, or a condition is not true or false.
named-guard | A named guard cannot be used.
template-syntax | A template cannot be parsed.
template-forbidden | A template uses a feature that templates here do not have.
template-limit | A template is too long, or nested too deep.
may-be-missing | On some path a value does not exist where it is used.
no-effect | warning key | A setting has no effect where it is written.
agent-choice | A state cannot choose its agent like this.
unknown-artifact | No state writes an artifact of this name.
text-as-code | Text from outside the machine stands where a program expects code.
before-first-work | A command that runs before the first work uses a value that does not exist yet.
never-judged | The best version is wanted where no version has been judged.
not-restored | A revise edge goes back to a version, and files of it stay as they are.
last-shown | warning | A person is shown the last version, and sends back the best one.
input-unhandled | key | Nothing handles items or inputs that another machine does not take.
child-input | A machine is not given the input that it takes.
child-state | `serial` or `alone` names no state of the machine that has work of its own.
unknown-outcome | No item can have this outcome.
parallel-writers | Items that run at the same time may write the same files.
name-collision | One name refers to two things.
reserved-name | key | A name is reserved by the language.
shadowed-name | key | A name would hide a name that guards already have.
content-unhandled | key | An empty or unusable answer would be treated like a good one.
stuck | key | A run can reach a state in which no transition is open.
no-open-choice | A question could be asked when all its choices are closed.
dead-transition | warning | No run ever takes a transition.
missing-feedback | key | A revise edge has no feedback to give.
undelivered-feedback | Nobody receives the feedback of a revise edge.
fields-as-data | warning | A condition on data reads the fields of a text, which is no data.
missing-key | key | Without a key, a reviewer's findings cannot be told apart.
folder-as-text | A folder is the artifact where only a text or data can be.
not-isolated | The best version of a folder is wanted, and its workspace is not isolated.
infeasible-success | warning | A run may succeed although the author declared the task infeasible.
item-path | A path of `each` or `for` does not lead where it has to, or `for` has two names.
unbounded-items | Nothing says how many items a list has at most.
judged-before | note | A rule repeats what an earlier state has already checked.
judged-elsewhere | warning | Programs judge in another folder than the tree in which the author \
works.
unknown-input | An input is not declared.
unbounded-input | An input is used as a bound but has no bounds itself.
billed-after-limit | After `limits.then`, a run would call an agent or a judge.
unreadable-data | A file of data is not valid JSON or YAML.
no-known-values | The source of a lookup has no values at that path.
reserved-option | key | An option of the provider is set by loopkit itself.
unknown-provider | LiteLLM does not know the provider.
never-binds | warning | No run can ever reach a limit, a cap or a budget.
unknown-origin | A state is named as an origin that `origins` does not list.
bad-origin | An origin can't be told what to fix.
origin-order | An origin is listed after one that works later.
outside-judge | A validator asks an agent that is played from outside.
bad-pattern | A regular expression is invalid.
unknown-pattern | warning | A pattern is not declared.
not-a-template | A text that is not a template contains template braces.
unknown-plugin | A plug-in is missing, or its module does not have the function.
unknown-choice | The question does not offer this choice.
duplicate-choice | A question offers the same choice twice.
missing-otherwise | key | A question has a timeout but no answer for when it runs out.
missing-timeout | key | `otherwise` never applies, because the question has no timeout.
otherwise-revises | The answer that counts after the timeout would lead back.
unanswerable-form | A form has to be filled in, but nobody does so after the timeout.
no-final-state | key | A machine has no final state.
unreachable-state | key | No path leads to a state.
no-way-to-the-end | key | No path leads from a state to a final state.
unknown-agent | An agent is not declared.
unknown-validator | A validator is not declared.
unknown-budget | A budget is not declared.
unknown-feedback | A feedback is not declared.
form-untold | key | Nothing tells a judge to answer in the form that `map` reads.
unknown-word | key | The table of a map lacks a word that the agent's schema allows.
unknown-server | An MCP server is not declared.
too-large-quorum | A quorum asks for more judges than the state has.
no-keyword | warning | A JSON Schema has no keyword, so it allows anything.
unknown-target | A transition leads to a state that does not exist.
starts-at-end | A run would start in a final state.
forward-cycle | Forward transitions form a cycle, so a run may never end.
revise-ahead | A revise edge leads to a state that does not come earlier.
resets-without-total | key | A transition resets counters, and nothing limits how often.
no-call-fits | warning | A limit is too low for a single call of an agent.
unbounded-call | note | A call can exceed a limit, because nothing is reserved for what it reports.
unread-verdict | warning | Something is judged, or may fail, and nothing depends on that.
not-filled-in | warning | `{ x }`, `${{ x }}` or `${VAR}` is not filled in as it seems to be.
cut-off | warning | A text ends before a comment that reads like the rest of it.
no-demand | warning | A rule accepts every text or none, or a field can't be found.
no-criteria | warning key | A judge is not told what to judge by.
no-result | warning key | A success has no result, and a text that was written is given to nobody.
unknown-model | warning | LiteLLM does not list a model, and one of nearly its name.
unknown-option | warning key | No provider is known to take an option.
bad-address | warning | The address of a model does not begin with `http://` or `https://`.
unused | warning key | A declaration is never used.
missing-group | A pattern has no group that marks the part to read.
unknown-group | A pattern for findings has a group that findings do not have.
two-readings | key | Two keys say how to read a judge's answer.
bad-word | key | Two words of a table are the same to the reader.
one-sided | warning key | The words of a judge let it only accept, or only reject.
"""


class Code(Value, frozen=True):
    meaning: str
    severity: Severity = "error"
    at_key: bool = False


def _code(meaning: str, kind: str = "error") -> Code:
    severity = cast("Severity", kind.removesuffix("key").strip() or "error")
    return Code(meaning, severity, kind.endswith("key"))


_SPLIT = (row.split(" | ") for row in _ROWS.splitlines())
CODES: Mapping[str, Code] = {code: _code(*reversed(rest)) for code, *rest in _SPLIT}
