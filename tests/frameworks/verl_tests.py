"""Runs verl's own tests of sequence length balancing with sab.compat.verl.seqlen_balancing in the
place of its module: verl_tests.py CHECKOUT [OPTION OF PYTEST...]

CHECKOUT is that of https://github.com/verl-project/verl, whose packages have no tests. With fewer
than two CUDA devices the ranks of the tests are on the CPU, and gloo is in the place of NCCL.
"""

import pathlib
import sys
import types

import pytest
import torch

CHECKOUT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(CHECKOUT))

import verl.utils.device

import sab.compat.verl.seqlen_balancing

# Processes that the tests start import this file, too.
sys.modules["verl.utils.seqlen_balancing"] = sab.compat.verl.seqlen_balancing
if torch.cuda.device_count() < 2:
    device = verl.utils.device
    device.get_device_name = lambda: "cpu"
    device.get_nccl_backend = lambda: "gloo"
    device.get_torch_device = lambda: types.SimpleNamespace(set_device=lambda rank: None)

if __name__ == "__main__":
    tests = CHECKOUT / "tests/utils/test_seqlen_balancing.py"
    sys.exit(int(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:], str(tests)])))
