"""Where PyPTO Pro is installed its own parser and code generator take every kernel with every TilingKey and dtype."""

import importlib
import itertools
from pathlib import Path
from typing import Any

import launcher
import pytest
from conv_common import CONV_KEY, FUSED_KEY, PACK_KEY, TANH_KEY

KEYS = {"k0_pack": PACK_KEY, "k1_conv": CONV_KEY, "k2_tanh": TANH_KEY, "k12_fused": FUSED_KEY}
INSTANCES = [
    (name, dict(zip(schema, values, strict=True)))
    for name, schema in KEYS.items()
    for values in itertools.product(*(allowed for _, allowed in schema.values()))
]


@pytest.mark.parametrize(("name", "key"), INSTANCES, ids=lambda value: str(value).replace(" ", ""))
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP32"])
def test_generates_code(name: str, key: dict[str, int], dtype: str, tmp_path: Path) -> None:
    pypto_pro = pytest.importorskip("pypto_pro", reason="PyPTO Pro comes with CANN and is not installed here")
    jit: Any = importlib.import_module("pypto_pro.runtime.jit")
    kernel = launcher.kernels()[name]
    datatypes = {variable: getattr(pypto_pro.DataType, dtype) for variable in kernel.datatype_schema.values()}
    result = jit._codegen(kernel.to_kernel_def(key, datatypes), "a5", False, out_dir=str(tmp_path))
    assert f"{name}_impl" in (tmp_path / "kernel.cpp").read_text()
    assert result.kernel_name == name
