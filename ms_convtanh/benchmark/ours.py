"""The operator as a side: both phases of the C interface, called from Python on tensors that are there."""

import ctypes
from contextlib import ExitStack

import numpy as np

from ms_convtanh import _library
from ms_convtanh._problem import Attributes, View, operands
from ms_convtanh.benchmark.models import Array, ConvTanhLayer, Model


class Operator:
    """One convolution of a model. A call is phase 1, which finds its plan, and phase 2 into the same y.

    frozen: The filter is kept packed, as ConvTanh.freeze says.
    """

    def __init__(self, model: Model, frozen: bool = False) -> None:
        (layer,) = model.layers
        assert isinstance(layer, ConvTanhLayer)
        self._library = _library.load()
        attributes = Attributes.of(4, *layer.attributes.values())
        y_shape = attributes.y_shape(model.x.shape, layer.conv_filter.shape)
        self._arrays = (model.x, layer.conv_filter, layer.bias, np.empty(y_shape, model.x.dtype))
        x, conv_filter, bias, y = (View(array.shape, None, array.ctypes.data) for array in self._arrays)
        self._alive = ExitStack()
        self._arguments = self._alive.enter_context(operands(model.dtype, x, conv_filter, bias, attributes, y))
        self._workspace = np.empty(0, np.uint8)
        self._filters = self._library.msctCreateFilterCache() if frozen else None
        if frozen:
            self._alive.callback(self._library.msctDestroyFilterCache, self._filters)

    def __call__(self) -> Array:
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        planned = (ctypes.byref(size), ctypes.byref(executor))
        _library.raise_for_status(self._library.aclnnFusedConvTanhGetWorkspaceSize(*self._arguments, *planned))
        if self._filters:
            _library.raise_for_status(self._library.msctSetFilterCache(executor, self._filters))
        if size.value > self._workspace.size:  # other options may need more
            self._workspace = np.empty(size.value, np.uint8)
        workspace = self._workspace.ctypes.data
        _library.raise_for_status(self._library.aclnnFusedConvTanh(workspace, size, executor, None))
        return self._arrays[-1]

    def close(self) -> None:
        """Destroys the tensors and what is kept."""
        self._alive.close()
