"""The rules of `seer.check`, in words: what to do, and what `seer.make_vec` does meanwhile."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RULES", "Rule"]


class Rule(NamedTuple):
    """What an environment is held to.

    Attributes:
        todo: what its author can do.
        copes: whether `seer.make_vec` gives right results nevertheless.
        vec: what `seer.make_vec` does then, after its name.
    """

    todo: str
    copes: bool
    vec: str


RULES: dict[str, Rule] = {
    # ---- what comes back
    "environment": Rule(
        "Let the factory return one new PettingZoo ParallelEnv or AECEnv or Gymnasium Env",
        False, "refuses it",
    ),
    "raises": Rule(
        "Let construction, reset, close and every legal action of every live agent work",
        False, "raises the same exception and names the environment",
    ),
    "return-form": Rule(
        "Return (observations, infos) from reset and (observations, rewards, terminations, "
        "truncations, infos) from step, in a multi-agent environment each a dict by agent",
        False, "refuses what comes back",
    ),
    # ---- agents
    "possible-agents": Rule(
        "Set self.possible_agents in __init__ to every name that may appear",
        True, "copes: it asks an extra instance that it resets, unless probe=False",
    ),
    "agent-names": Rule(
        "Let possible_agents be a list of strings, each of them once",
        False, "refuses it",
    ),
    "agent-unannounced": Rule(
        "Name it in possible_agents, with its spaces",
        False, "has no place for it, unless max_agents reserves some or layout is 'list'",
    ),
    "agents-list": Rule(
        "Keep self.agents up to date: whoever ends leaves it in that step, and it is empty when "
        "the episode is over",
        True, "copes: without a list that is kept, an episode is over when all have been flagged",
    ),
    "agent-unflagged": Rule(
        "Set the agent's terminated or truncated flag in its last step",
        True, "copes: it takes the end for a truncation",
    ),
    "agent-revives": Rule(
        "Begin a new life under a new name, or in a new episode",
        True, "copes: the agent is live again from its first new observation on",
    ),
    "after-death": Rule(
        "Report an agent for the last time in the step that flags it",
        True, "copes: it ignores what comes later",
    ),
    "step-after-end": Rule(
        "Let step({}) return five empty dicts, or raise, once self.agents is empty",
        True, "copes: it never steps an environment that is over",
    ),
    "selection": Rule(
        "Let agent_selection always name one of self.agents",
        False, "can't tell whose turn it is",
    ),
    "dead-turn": Rule(
        "Begin step with: if the selected agent is terminated or truncated, return "
        "self._was_dead_step(action)",
        False, "can't get past the agent's turn, or past the episode's end",
    ),
    "turn-missing": Rule(
        "Leave an agent that ends in self.agents until its turn with action None, which "
        "self._was_dead_step makes; only then is its last reward read",
        False, "can deliver the flag, but not a reward that nobody reads",
    ),
    "reward-twice": Rule(
        "Set self._cumulative_rewards[agent] = 0 where step begins, then add self.rewards",
        False, "delivers what last() returns, as every loop does",
    ),
    # ---- flags
    "flag-type": Rule(
        "Return bool(flag)",
        True, "copes with numbers and arrays of one element, and refuses anything else",
    ),
    "flag-missing": Rule(
        "Give both flags of every agent that acted",
        True, "copes: it takes a missing flag for False",
    ),
    "flag-all": Rule(
        "Leave '__all__' out, and empty self.agents when the episode is over",
        True, "copes: it ignores the key, with a warning",
    ),
    "flags-merged": Rule(
        "Set terminated for an end of the task and truncated for a cut such as a time limit: a "
        "trainer looks at the value of the last state only after a cut",
        False, "passes the flags on as they are",
    ),
    # ---- spaces and values
    "space-missing": Rule(
        "Return a gymnasium space from observation_space and action_space for every agent",
        False, "refuses it",
    ),
    "space-object": Rule(
        "Make each space once, in __init__, and always return that object, so that seeding it "
        "has an effect",
        True, "copes: it asks once and always shows the same objects",
    ),
    "space-changes": Rule(
        "Let an agent's spaces stay equal as long as the environment lives",
        False, "makes its arrays for the first answer",
    ),
    "observation-missing": Rule(
        "Return an observation for every agent that is to act next",
        True, "copes: it doesn't ask the agent for an action until it is observed again",
    ),
    "observation-last": Rule(
        "Return a last observation together with the flag; the value of a cut is learned from it",
        True, "copes: it gives filler in its place",
    ),
    "observation-form": Rule(
        "Return what the space is made of: numpy arrays, and dicts and tuples of them",
        True, "copes with lists and numbers of the right shape, and refuses anything else",
    ),
    "observation-shape": Rule(
        "Return the declared shape, or declare the one that is returned",
        False, "refuses it",
    ),
    "observation-dtype": Rule(
        "Cast what is returned, as in .astype(space.dtype), or declare its dtype",
        True, "copes within a kind (float64 to float32); from one kind to another it refuses",
    ),
    "observation-bounds": Rule(
        "Widen the bounds of the space, or clip what is returned",
        True, "copes: it passes the values on",
    ),
    "observation-nan": Rule(
        "Find what divides by zero or overflows; one such value spoils a learner for good",
        False, "passes it on",
    ),
    "observation-reused": Rule(
        "Return a copy, or make a new array each step",
        True, "copes: it copies before the environment runs again",
    ),
    "info-reused": Rule(
        "Make a new dict each step",
        True, "copes: it copies before the environment runs again",
    ),
    "info-shared": Rule(
        "Make a dict of its own for every agent, as in {agent: {} for agent in agents} and not "
        "dict.fromkeys(agents, {})",
        True, "copes: every agent gets a copy",
    ),
    "info-form": Rule("Return a dict", False, "refuses it"),
    "reward-type": Rule(
        "Return float(reward)",
        True, "copes with arrays of one element, and refuses anything else",
    ),
    "reward-finite": Rule(
        "Find what divides by zero or overflows; one such reward spoils a learner for good",
        False, "passes it on",
    ),
    "reward-missing": Rule(
        "Return a reward for every agent that acted, 0 if there is none",
        True, "copes: it takes a missing reward for 0",
    ),
    # ---- masks
    "mask-form": Rule(
        "Let the mask have one entry for each action of the agent's Discrete space",
        False, "passes it on, and can't sample by it",
    ),
    "mask-empty": Rule(
        "Allow at least one action (one that does nothing) to whoever must act",
        False, "passes it on; a policy that honours it has nothing to choose",
    ),
    "mask-ignored": Rule(
        "Refuse, punish or replace an action that the mask forbids; or leave it out of the mask",
        True, "copes: masks are for the policy, and sample_actions honours them",
    ),
    # ---- chance
    "global-random": Rule(
        "Draw from a generator of its own, self.np_random = np.random.default_rng(seed) made in "
        "reset, and leave the global ones alone",
        False, "can't repeat it: the copies of one process share that generator, and which copies "
        "those are depends on the backend",
    ),
    "reset-seed": Rule(
        "Give reset the parameters seed=None and options=None, and draw everything from a "
        "generator made from that seed",
        False, "can't repeat a run: its seeds are refused",
    ),
    "seed": Rule(
        "Draw everything from one generator that reset(seed=...) makes anew, also what __init__ "
        "makes up, and don't depend on time, ids, the order of sets, or what an earlier instance "
        "left in the class or the module",
        False, "passes the seeds on, and can't repeat a run either",
    ),
    "seed-zero": Rule(
        "Write `if seed is not None`, since 0 is a seed too",
        False, "gives seed 0 to the first copy of reset(seed=0)",
    ),
    "seeds-equal": Rule(
        "Make the generator from the seed that reset is given",
        False, "gives every copy another seed, in vain: they all do the same",
    ),
    "unseeded-equal": Rule(
        "Take entropy from the system (np.random.default_rng()) when no seed was given",
        False, "can't make unseeded copies differ; give its reset a seed",
    ),
    "episodes-repeat": Rule(
        "Make a generator in reset only if a seed is given, and go on with the old one else",
        False, "resets without a seed when an episode ends: all episodes would be one",
    ),
    "reset-midway": Rule(
        "Let reset set everything that an episode changes",
        False, "resets in the middle of an episode when reset_mask says so",
    ),
    "shared-state": Rule(
        "Keep everything in self: no variable of the module or class that a step changes, and no "
        "mutable default argument",
        False, "runs several copies in one process, so they would disturb each other",
    ),
    # ---- the rest
    "action-altered": Rule(
        "Copy what is changed: action = np.array(action)",
        True, "copes: it gives the environment a copy",
    ),
    "render": Rule(
        "Return an array (height, width, 3) of uint8 for 'rgb_array' and a str for 'ansi'",
        False, "passes on what render returns",
    ),
    "render-mode": Rule(
        "Set self.render_mode to the mode that was asked for, and name the modes that there are "
        "in metadata['render_modes']",
        True, "copes, but a recorder looks there and finds nothing",
    ),
    "close-twice": Rule(
        "Let close return when there is nothing left to close",
        True, "copes: it closes each environment exactly once",
    ),
    "close-early": Rule(
        "Let close work on an environment that was never reset",
        False, "closes environments that were made in vain when another can't be made",
    ),
}  # fmt: skip
