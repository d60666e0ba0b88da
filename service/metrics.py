"""Numbers of a program, in the text format of Prometheus.

Programs count in plain integers, and are asked for them when somebody asks for the page. The library that knows the
format is loaded with the first such page: most programs never need it, and all would start later and larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pocketmq.protocol.errors import MissingExtraError

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Measure(NamedTuple):
    """One thing that is counted (it only grows; its name ends in `_total`) or gauged, and a number for each labelling.

    The help text says what it is; the labellings of one measure have the same labels, or it has one that is empty.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def render(measures: Iterable[Measure]) -> bytes:
    """The measures, and those of the process itself: its memory, descriptors and seconds of CPU."""
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    except ImportError:
        raise MissingExtraError("the format of Prometheus", "metrics") from None
    registry = CollectorRegistry()
    registry.register(_Collected([_family(measure) for measure in measures]))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Collected:
    """What a registry asks for its metrics."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def _family(measure: Measure) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels = list(measure.samples[0][0]) if measure.samples else []
    family = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
    metric: CounterMetricFamily | GaugeMetricFamily = family(measure.name, measure.help, labels=labels)
    for labelling, number in measure.samples:
        metric.add_metric([_encodable(labelling[label]) for label in labels], number)
    return metric


def _encodable(text: str) -> str:
    """A peer may name a thing with half a character, and that must not cost the page."""
    return text.encode(errors="replace").decode()
