"""The same vector with tensors in place of arrays."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from seer.errors import ActionError, ConfigError, MissingDependencyError
from seer.vector.make import make_vec
from seer.vector.wrappers import FrameStack, NormalizeObservation

from .test_wrappers import Ended, a_vec, ones
from .worlds import Ledger

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .seer-marl\[torch\]") as caught:
        a_vec().torch()
    assert (caught.value.package, caught.value.extra) == ("torch", "torch")


def paired(tensors: Any, arrays: Any) -> None:
    """The same values, dtypes and nesting, as tensors and as arrays."""
    import torch

    if isinstance(arrays, dict):
        assert list(tensors) == list(arrays)
        for key, value in arrays.items():
            paired(tensors[key], value)
    elif isinstance(arrays, (list, tuple)):
        assert type(tensors) is type(arrays) and len(tensors) == len(arrays)
        for x, y in zip(tensors, arrays, strict=True):
            paired(x, y)
    elif isinstance(arrays, np.ndarray) and arrays.dtype.hasobject:
        assert isinstance(tensors, np.ndarray)
        for x, y in zip(tensors.ravel(), arrays.ravel(), strict=True):
            paired(x, y)
    elif isinstance(arrays, np.ndarray):
        assert isinstance(tensors, torch.Tensor) and tensors.device.type == "cpu"
        assert tensors.numpy().dtype == arrays.dtype
        np.testing.assert_array_equal(tensors.numpy(), arrays)
    else:
        assert tensors == arrays


@needs_torch
@pytest.mark.parametrize("kind", [Ledger, Ended])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("layout", ["dict", "stacked", "list", "flat"])
def test_everything_is_a_tensor_and_equal_to_the_arrays(layout: str, mode: str, kind: Any) -> None:
    plain, vec = a_vec(layout, mode, kind), a_vec(layout, mode, kind).torch()
    paired(vec.reset(seed=0), plain.reset(seed=0))
    for _ in range(8):
        actions = vec.sample_actions()
        arrays = vec._arrays(actions)
        paired(actions, arrays)
        found, want = vec.step(actions), plain.step(arrays)
        if layout == "flat":  # the one thing that is never twice the same
            for infos in (found[4], want[4]):
                infos.get("episode", {}).pop("t", None)
        paired(found, want)
        for name in ("live", "acted", "episode_over", "was_reset", "env_ids"):
            paired(getattr(vec, name), getattr(plain, name))
    vec.close()


@needs_torch
def test_nothing_is_copied_and_it_stays() -> None:
    vec = a_vec("stacked").torch()
    obs, _ = vec.reset(seed=0)
    kept = []
    for _ in range(10):
        root = vec.unwrapped._frame.obs[0][0]
        assert np.shares_memory(obs["ally"].numpy(), root)
        kept.append((obs["ally"], obs["ally"].clone()))
        obs, rewards, *_ = vec.step(ones(vec.vec))
        rewards["foe"] += 1.0
    assert all((tensor == then).all() for tensor, then in kept)


@needs_torch
@pytest.mark.filterwarnings("error")
def test_read_only_arrays_become_tensors_of_their_own() -> None:
    vec = a_vec("stacked", copy=False).torch()
    obs, _ = vec.reset(seed=0)
    first = obs["ally"].clone()
    assert not np.shares_memory(obs["ally"].numpy(), vec.unwrapped._frame.obs[0][0])
    for _ in range(5):
        vec.step(ones(vec.vec))
    assert (obs["ally"] == first).all()
    obs["ally"] += 1


@needs_torch
def test_tensors_as_actions_in_every_form() -> None:
    import torch

    def made(layout: str) -> Any:
        return make_vec([partial(Ledger, names=("x_0", "x_1"))] * 3, layout=layout,
                        backend="serial", probe=False).torch()  # fmt: skip

    one = torch.ones(3, dtype=torch.int64)
    for layout, actions in (
        ("dict", {"x_0": one, "x_1": one.to(torch.int32)}),
        ("dict", [{"x_0": one[0], "x_1": 1}] * 3),
        ("list", [{"x_0": one[0], "x_1": one[1]}] * 3),
        ("stacked", {"x": torch.ones((3, 2), dtype=torch.int64)}),
        ("flat", torch.ones(6, dtype=torch.int64)),
    ):
        vec = made(layout)
        vec.reset()
        vec.step(actions)
        for taken in vec.get_attr("actions"):
            assert taken == [{"x_0": 1, "x_1": 1}]


@needs_torch
def test_masks_as_options_and_asynchronous_results() -> None:
    import torch

    vec = a_vec("dict").torch()
    vec.reset()
    vec.step(ones(vec.vec))
    obs, _ = vec.reset(options={"reset_mask": torch.tensor([False, True, False])})
    assert obs["foe_0"][:, 3].tolist() == [1, 0, 1]

    vec = a_vec("dict", batch_size=2).torch()
    vec.async_reset(seed=0)
    for _ in range(6):
        obs, *_, infos = vec.recv()
        assert torch.equal(infos["env_id"], vec.env_ids) and obs["foe_0"].shape == (2, 4)
        vec.send({a: torch.ones(2, dtype=torch.int64) for a in vec.agents}, vec.env_ids)
    vec.close()


@needs_torch
def test_a_saved_state_goes_on_with_tensors() -> None:
    import torch

    vec = make_vec("uav_swarm_v0", num_envs=2, layout="flat", drones=2).torch()
    seen, _ = vec.reset(seed=0)
    obs, infos = vec.load_state_dict(vec.state_dict())
    assert torch.equal(obs, seen) and isinstance(infos["live"], torch.Tensor)
    vec.close()


@needs_torch
def test_tensors_that_arrays_cannot_share() -> None:
    import torch

    vec = a_vec("dict").torch()
    vec.reset()
    good = torch.ones(3, dtype=torch.int64)
    for bad, why in (
        (torch.ones(3, requires_grad=True), r"actions\['foe_0'\].*give tensor.detach\(\)"),
        (torch.ones(3, device="meta"), r"actions\['foe_0'\].*on the CPU, got one on meta.*cpu\(\)"),
        (torch.ones(3, dtype=torch.bfloat16), r"actions\['foe_0'\].*got torch.bfloat16"),
        (torch.ones(3).to_sparse(), r"actions\['foe_0'\].*dense tensor"),
    ):
        with pytest.raises(ActionError, match=why) as caught:
            vec.step({"ally_0": good, "ally_1": good, "foe_0": bad})
        assert caught.value.agent == "foe_0"
    vec.step({"ally_0": good, "ally_1": good, "foe_0": good})


@needs_torch
def test_around_wrappers_but_not_inside() -> None:
    import torch

    vec = FrameStack(NormalizeObservation(a_vec("stacked")), 2).torch()
    obs, _ = vec.reset()
    assert obs["ally"].shape == (3, 2, 2, 4) and obs["ally"].dtype == torch.float32
    assert vec.torch() is vec and vec.num_envs == 3 and "tensors of <FrameStack" in repr(vec)
    assert vec.state().shape == (3, 3)
    with pytest.raises(ConfigError, match=r"got .*TorchVectorEnv; .*call torch\(\) last"):
        FrameStack(vec, 2)
