"""The precision checker: arrays against golden ones, and the layers of a network against float64.

`ms-convtanh check` is made of these functions.
"""

from ms_convtanh._check_report import as_html
from ms_convtanh._compare import Comparison, compare, compare_all, load_arrays
from ms_convtanh._layers import Layer, NetworkCheck, check_network

__all__ = [
    "Comparison",
    "Layer",
    "NetworkCheck",
    "as_html",
    "check_network",
    "compare",
    "compare_all",
    "load_arrays",
]
