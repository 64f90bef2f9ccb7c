"""Observations into one block by the loop in C: what is as declared, and nothing else."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from seer.vector.leaves import Tree
from seer.vector.pack import quick_format
from seer.vector.quick import pack_in_c

pytestmark = pytest.mark.skipif(pack_in_c is None, reason="the loop in C was not built")


def packed(leaf, values):
    target = np.zeros((len(values) + 1, *leaf.shape), leaf.dtype)
    address = int(target.ctypes.data)
    return pack_in_c(values, np.ndarray, quick_format(leaf), leaf.shape, address), target


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,), (0,), (2, 1, 4)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i2", "i8", "f2"])
def test_arrays_as_declared_are_copied(shape, dtype):
    (leaf,) = Tree(Box(0, 100, shape, np.dtype(dtype).type)).leaves
    values = [np.full(shape, k, dtype) for k in range(5)]
    values[2] = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    done, target = packed(leaf, values)
    assert done is True
    assert target[:-1].tolist() == np.stack(values).tolist()
    assert not target[-1].any()  # nothing is written beyond


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros(3), np.zeros(4, "f4"), np.zeros((3, 1), "f4"), np.zeros(6, "f4")[::2],
        np.zeros(3, ">f4"), np.zeros(3, "i4"), [0.0, 0.0, 0.0], np.float32(1), None, b"\0" * 12,
        np.ma.zeros(3, "f4"), memoryview(np.zeros(3, "f4")), np.array([1, 2, None]),
        np.zeros(3, "M8[s]"),
    ],
    ids=str,
)  # fmt: skip
def test_anything_else_is_left_to_a_closer_look(odd):
    (leaf,) = Tree(Box(-1, 1, (3,), np.float32)).leaves
    done, target = packed(leaf, [np.ones(3, "f4"), odd])
    assert done is False
    assert not target[1:].any()


def test_numbers_and_object_leaves_are_not_packed_so():
    (number,) = Tree(Discrete(3)).leaves
    assert quick_format(number) == ""


def test_few_numbers_have_their_scalars_ready():
    choices = Tree(Discrete(3, start=-1)).choices
    assert list(choices) == [-1, 0, 1]
    assert all(type(value) is np.int64 and value == key for key, value in choices.items())
    assert Tree(Box(0, 1, (2,))).choices is None
    assert Tree(Discrete(10**9)).choices is None
