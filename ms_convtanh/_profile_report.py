"""A profile as a Chrome trace, which Perfetto opens too, and as a flame graph."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from ms_convtanh._trace import Event

_COLOURS = {
    "framework": "#b0b0b0",
    "entry": "#8ea6c4",
    "phase 1": "#e3a63b",
    "phase 2": "#e3c27a",
    "run": "#6f9bd1",
    "pack": "#c98bb9",
    "K1": "#5aa469",
    "K2": "#86c994",
    "wait": "#d96c5f",
}
_WIDTH, _ROW, _TEXT = 1200, 20, 7  # pixels: of the graph, of a row, of a letter


def _title(event: Event) -> str:
    return event.detail if event.phase in ("framework", "run") and event.detail else event.phase


def as_chrome_trace(events: Sequence[Event]) -> str:
    """JSON in the Trace Event Format (complete events, times in microseconds), for ui.perfetto.dev or chrome://tracing."""
    first = min((event.start for event in events), default=0)
    threads = dict.fromkeys(event.thread for event in sorted(events, key=lambda event: event.start))
    named: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": f"thread {thread}"}}
        for thread in threads
    ]
    complete = [
        {
            "ph": "X",
            "pid": 1,
            "tid": event.thread,
            "name": _title(event),
            "cat": event.phase,
            "ts": (event.start - first) / 1000,
            "dur": (event.end - event.start) / 1000,
            "args": {name: value for name, value in (("flops", event.flops), ("bytes", event.bytes)) if value},
        }
        for event in events
    ]
    return json.dumps({"traceEvents": named + complete, "displayTimeUnit": "ns"})


@dataclass
class _Frame:
    """Equal stretches at one place of the call tree."""

    phase: str
    seconds: float = 0.0
    calls: int = 0
    frames: "dict[str, _Frame]" = field(default_factory=dict)

    def depth(self) -> int:
        return 1 + max((frame.depth() for frame in self.frames.values()), default=0)


def _tree(events: Iterable[Event]) -> dict[str, _Frame]:
    """Call trees by thread. Events are sorted by thread, start and falling end."""
    roots: dict[str, _Frame] = {}
    stack: list[tuple[Event, _Frame]] = []
    for event in events:
        while stack and (stack[-1][0].thread != event.thread or stack[-1][0].end < event.end):
            stack.pop()
        root = roots.setdefault(f"thread {event.thread}", _Frame("thread"))
        if not stack:
            root.seconds += event.seconds
            root.calls += 1
        parent = stack[-1][1] if stack else root
        frame = parent.frames.setdefault(_title(event), _Frame(event.phase))
        frame.seconds += event.seconds
        frame.calls += 1
        stack.append((event, frame))
    return roots


def _boxes(name: str, frame: _Frame, x: float, y: int, scale: float, total: float) -> Iterable[str]:
    width = frame.seconds * scale
    if width < 0.3:
        return
    label = f"{name}: {frame.seconds * 1e6:.1f} us, {frame.seconds / total:.1%}, {frame.calls} times"
    colour = _COLOURS.get(frame.phase, "#dddddd")
    yield f"<g><title>{escape(label)}</title>"
    yield f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 1}" fill="{colour}"/>'
    letters = int(width / _TEXT)
    if letters >= 3:
        text = name if len(name) <= letters else name[: letters - 1] + "…"
        yield f'<text x="{x + 3:.2f}" y="{y + _ROW - 6}">{escape(text)}</text>'
    yield "</g>"
    for inner_name, inner in frame.frames.items():
        yield from _boxes(inner_name, inner, x, y + _ROW, scale, total)
        x += inner.seconds * scale


def as_flame_graph(events: Sequence[Event]) -> str:
    """An SVG: for each thread a call tree, callers above; widths are total times. Tooltips give the numbers."""
    roots = _tree(events)
    total = sum(root.seconds for root in roots.values()) or 1.0
    largest = max((root.seconds for root in roots.values()), default=1.0) or 1.0
    scale = _WIDTH / largest
    boxes: list[str] = []
    y = 0
    for name, root in roots.items():
        boxes += _boxes(name, root, 0.0, y, scale, total)
        y += (root.depth() + 1) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{max(y, _ROW)}" '
        f'font-family="sans-serif" font-size="12">\n' + "\n".join(boxes) + "\n</svg>\n"
    )
