"""Runs one PyPTO program in a process and a folder of its own; started by pypto_sim.py, which reads what it leaves.

    python pypto_worker.py REQUEST CALCULATOR

REQUEST is a pickle of pypto_sim.Request; the filled last argument is written beside it as result.npy. CALCULATOR is
the library that interprets the program after each compiler pass, or "" if the request asks for no verification.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pypto
import pypto_sim
import torch
from pypto import pypto_impl
from pypto.frontend.parser.entry import JitCallableWrapper
from pypto.runtime import _pto_to_tensor_data, _pto_verify_datas
from pypto_programs import PROGRAMS

TORCH_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The array as a tensor over the same memory; NumPy and torch do not know each other's bfloat16."""
    integers = array.view(np.int16 if array.itemsize == 2 else np.int32)
    return torch.from_numpy(integers).view(TORCH_DTYPES[array.dtype.name])


def verify_host_tensors() -> None:
    """Gives the pass-by-pass verification the tensors of the call.

    PyPTO 0.2.0 copies them from the device, which without CANN copies nothing: every check would compare what comes
    of zeros. In simulation the tensors are in host memory and are passed as they are.
    """

    def setup(tensors: list) -> None:
        pypto_impl.SetVerifyData(_pto_to_tensor_data(tensors), [], _pto_verify_datas.get_data())

    JitCallableWrapper._setup_verify_data = staticmethod(setup)


def main(request_path: str, calculator: str) -> None:
    request: pypto_sim.Request = pickle.loads(Path(request_path).read_bytes())
    options: dict[str, dict] = {"runtime_options": {"run_mode": pypto.RunMode.SIM}}
    if request.tolerance is not None:
        ctypes.CDLL(calculator, mode=ctypes.RTLD_GLOBAL)
        verify_host_tensors()
        options["verify_options"] = {"enable_pass_verify": True, "pass_verify_error_tol": list(request.tolerance)}
        pypto.set_verify_golden_data(goldens=[None] * len(request.arguments) + [to_torch(request.golden)])
    result = np.full(request.golden.shape, np.nan, request.golden.dtype)
    program = PROGRAMS[request.program](request.grid, options)
    program(*map(to_torch, [*request.arguments, result]))
    # As bytes: NumPy's file format does not know bfloat16 either.
    np.save(Path(request_path).with_name("result.npy"), result.view(np.uint8))


if __name__ == "__main__":
    assert ml_dtypes.bfloat16  # makes NumPy know the dtype before the request is read
    main(*sys.argv[1:])
