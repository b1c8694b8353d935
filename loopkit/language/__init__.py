"""The language: one frozen class for each noun of a machine definition."""

from loopkit.language.agents import Agent
from loopkit.language.agents.agent import KeepTurns, Workspace
from loopkit.language.agents.calls import ErrorRule, Retry
from loopkit.language.agents.command import CommandAgent
from loopkit.language.agents.model import Fallback, ModelAgent, Price
from loopkit.language.agents.outside import OutsideAgent
from loopkit.language.agents.tools import (
    CommandTool,
    McpTool,
    PythonTool,
    Tool,
    ToolBase,
    ValidatorTool,
)
from loopkit.language.emission import Emission
from loopkit.language.machine import Alert, Limits, Machine
from loopkit.language.mcp_server import McpServer
from loopkit.language.noun import Bound, Noun
from loopkit.language.states import State
from loopkit.language.states.agent import AgentState
from loopkit.language.states.author import AuthorState
from loopkit.language.states.children import ChildrenState
from loopkit.language.states.choice import ChoiceState
from loopkit.language.states.command import CommandState
from loopkit.language.states.each import EachState
from loopkit.language.states.final import FinalState
from loopkit.language.states.human import HumanState
from loopkit.language.states.machine import MachineState
from loopkit.language.states.output import Extract, Output, RenderOutput
from loopkit.language.states.render import RenderState
from loopkit.language.states.state import AgentChoice, WorkingState
from loopkit.language.states.validate import ValidateState
from loopkit.language.transitions import ErrorEdge, ErrorExit, ErrorTargets, Transition
from loopkit.language.validators import Rule, Validator, rules_of
from loopkit.language.validators.acyclic import Acyclic, AcyclicRule
from loopkit.language.validators.command import CommandError, CommandRule
from loopkit.language.validators.judge import JudgeRule, Score
from loopkit.language.validators.length import MaxCharsRule, MinCharsRule
from loopkit.language.validators.lookup import DataFile, Lookup, LookupRule
from loopkit.language.validators.pattern import MatchesRule, NotMatchesRule
from loopkit.language.validators.plugin import PythonRule
from loopkit.language.validators.report_map import ReportMap
from loopkit.language.validators.require import RequireRule
from loopkit.language.validators.rule import FixedRule
from loopkit.language.validators.schema import SchemaRule
from loopkit.language.validators.section import SectionRule
from loopkit.language.validators.verdict import VerdictCounts, VerdictReading

__all__ = [
    "Acyclic",
    "AcyclicRule",
    "Agent",
    "AgentChoice",
    "AgentState",
    "Alert",
    "AuthorState",
    "Bound",
    "ChildrenState",
    "ChoiceState",
    "CommandAgent",
    "CommandError",
    "CommandRule",
    "CommandState",
    "CommandTool",
    "DataFile",
    "EachState",
    "Emission",
    "ErrorEdge",
    "ErrorExit",
    "ErrorRule",
    "ErrorTargets",
    "Extract",
    "Fallback",
    "FinalState",
    "FixedRule",
    "HumanState",
    "JudgeRule",
    "KeepTurns",
    "Limits",
    "Lookup",
    "LookupRule",
    "Machine",
    "MachineState",
    "MatchesRule",
    "MaxCharsRule",
    "McpServer",
    "McpTool",
    "MinCharsRule",
    "ModelAgent",
    "NotMatchesRule",
    "Noun",
    "Output",
    "OutsideAgent",
    "Price",
    "PythonRule",
    "PythonTool",
    "RenderOutput",
    "RenderState",
    "ReportMap",
    "RequireRule",
    "Retry",
    "Rule",
    "SchemaRule",
    "Score",
    "SectionRule",
    "State",
    "Tool",
    "ToolBase",
    "Transition",
    "ValidateState",
    "Validator",
    "ValidatorTool",
    "VerdictCounts",
    "VerdictReading",
    "WorkingState",
    "Workspace",
    "rules_of",
]
