"""The precision checker's results as tables and as one HTML page that needs nothing else."""

import io
from collections.abc import Sequence
from typing import Any

from ms_convtanh._compare import COMMAND, Comparison, histogram_labels
from ms_convtanh._extras import require
from ms_convtanh._layers import SOURCES, Layer, NetworkCheck

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>ms-convtanh check</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.passed { color: #0a6b2d; } .failed { color: #b3261e; font-weight: 600; }
figure { display: inline-block; margin: 0 1rem 1rem 0; }
</style>
</head>
<body>
{% set verdict = 'passed' if passed else 'failed' %}
<h1>ms-convtanh check: <span class="{{ verdict }}">{{ verdict }}</span></h1>
{% if jump %}<p class="failed">First jump: {{ jump }}: {{ reason }}</p>{% endif %}
<h2>{{ 'Outputs' if layers is not none else 'Arrays' }}</h2>
<table>
<tr>{% for title in comparison_titles %}<th>{{ title }}</th>{% endfor %}</tr>
{% for c, row in comparisons %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}
<td class="{{ 'passed' if c.passed else 'failed' }}">{{ 'passed' if c.passed else c.reason }}</td></tr>
{% endfor %}</table>
{% for c, svg in histograms %}<figure>
<figcaption>{{ c.name }}: elements by relative error</figcaption>{{ svg }}</figure>
{% endfor %}
{% if layers is not none %}<h2>Layers</h2>
<table>
<tr>{% for title in layer_titles %}<th>{{ title }}</th>{% endfor %}</tr>
{% for passed, row in layers %}<tr{% if not passed %} class="failed"{% endif %}>
{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% for line in unreferenced %}<p>Without a reference: {{ line }}</p>{% endfor %}
{% endif %}
</body>
</html>
"""

COMPARISON_TITLES = ("name", "shape", "dtype", "MERE", "MARE", "MARE, large |g|", "max |a - g|", "at", "equal")
LAYER_TITLES = ("layer", "own MERE", "own MARE", "total MERE", "total MARE", *SOURCES)


def comparison_row(comparison: Comparison) -> tuple[str, ...]:
    c = comparison
    numbers = (f"{value:.2e}" for value in (c.mere, c.mare, c.mare_large, c.max_abs))
    return (c.name, str(list(c.shape)), c.dtype, *numbers, str(list(c.worst)), f"{c.exact:.1%}")


def layer_row(layer: Layer) -> tuple[str, ...]:
    if layer.own is None or layer.total is None:
        return (layer.name, *["-"] * (len(LAYER_TITLES) - 1))
    errors = (layer.own.mere, layer.own.mare_large, layer.total.mere, layer.total.mare_large)
    counts = (layer.sources[source] for source in SOURCES)
    return (layer.name, *(f"{error:.2e}" for error in errors), *(str(count) if count else "" for count in counts))


def layer_passed(layer: Layer) -> bool:
    return all(one is None or one.passed for one in (layer.own, layer.total))


def _histogram_svg(comparison: Comparison) -> str:
    figure_module = require(COMMAND, "matplotlib.figure", "tools")
    figure = figure_module.Figure(figsize=(6, 2.6), layout="constrained")
    axes = figure.subplots()
    labels = histogram_labels()
    axes.bar(range(len(labels)), comparison.histogram, color=["#0a6b2d", *["#4a6fa5"] * (len(labels) - 1)])
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", fontsize=7)
    axes.set_ylabel("elements")
    if max(comparison.histogram, default=0) > 0:
        axes.set_yscale("symlog", linthresh=1)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def as_html(result: NetworkCheck | Sequence[Comparison]) -> str:
    """A page with all tables and a histogram of errors for each array; it loads nothing from elsewhere.

    Raises:
        RuntimeError: jinja2 or matplotlib is missing.
    """
    jinja2 = require(COMMAND, "jinja2", "tools")
    markup = require(COMMAND, "markupsafe", "tools").Markup
    network = result if isinstance(result, NetworkCheck) else None
    comparisons: Sequence[Comparison] = result.outputs if isinstance(result, NetworkCheck) else result
    content: dict[str, Any] = {
        "passed": network.passed if network else all(c.passed for c in comparisons),
        "jump": network.first_jump if network else None,
        "reason": network.reason if network else "",
        "comparison_titles": (*COMPARISON_TITLES, ""),
        "comparisons": [(c, comparison_row(c)) for c in comparisons],
        "histograms": [(c, markup(_histogram_svg(c))) for c in comparisons],
        "layer_titles": LAYER_TITLES,
        "layers": [(layer_passed(layer), layer_row(layer)) for layer in network.layers] if network else None,
        "unreferenced": network.unreferenced if network else (),
    }
    return jinja2.Environment(autoescape=True).from_string(_PAGE).render(content)
