"""Tells the model calls of several agents apart, by the session that the library names with each call."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web
from envhub.protocol.evals.rollouts import Turn, TurnAgent
from envhub.protocol.runner import AgentPart

from workers.rollouts.plausible import usable

SESSION_HEADER = "X-Session-ID"  # verifiers 0.3.1 and later: the id of the trace that the call belongs to
LONGEST = 200  # characters of a name or a task, which are stored with every turn
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


def agent_of(request: web.Request) -> TurnAgent | None:
    """Return the agent that makes a call, as far as the call tells."""
    session = request.headers.get(SESSION_HEADER, "")
    return TurnAgent(id=session) if _SESSION.fullmatch(session) else None


def by_agents(turns: Sequence[Turn], parts: Sequence[AgentPart]) -> list[Turn]:
    """Return the turns with the agents that the runner reported; those of agents that are not trained do not train."""
    known = {part.id: part for part in parts}
    return [_of_part(turn, known.get(turn.agent.id) if turn.agent else None) for turn in turns]


def _of_part(turn: Turn, part: AgentPart | None) -> Turn:
    if part is None:
        return turn.model_copy(update={"agent": None})
    reward = part.reward if usable(part.reward) else None
    agent = TurnAgent(id=part.id, name=part.name[:LONGEST], task=part.task[:LONGEST], reward=reward)
    return turn.model_copy(update={"agent": agent, "trainable": turn.trainable and part.trainable})
