"""Numbers as Prometheus reads them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pocketmq.protocol.errors import MissingExtraError
from pocketmq.service.metrics import Measure, render

REQUESTS = Measure("requests_total", "counter", "Requests served.", [({"code": "34"}, 7), ({"code": "105"}, 0)])
CLIENTS = Measure("clients", "gauge", "Connections that are open.", [({}, 3)])


def read(text: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by their names, read by the library's own parser."""
    families = text_string_to_metric_families(text.decode())
    samples = [sample for family in families for sample in family.samples]
    return {
        name: [(sample.labels, sample.value) for sample in samples if sample.name == name]
        for name in dict.fromkeys(sample.name for sample in samples)
    }


def test_counters_and_gauges_are_written_with_their_help_and_labels() -> None:
    assert (
        render([REQUESTS, CLIENTS])
        .decode()
        .startswith(
            "# HELP requests_total Requests served.\n"
            "# TYPE requests_total counter\n"
            'requests_total{code="34"} 7.0\n'
            'requests_total{code="105"} 0.0\n'
            "# HELP clients Connections that are open.\n"
            "# TYPE clients gauge\n"
            "clients 3.0\n"
        )
    )


def test_the_process_is_measured_too() -> None:
    samples = read(render([]))
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"):
        ((labels, number),) = samples[name]
        assert labels == {}
        assert number > 0


def test_a_measure_without_samples_is_named_nevertheless() -> None:
    assert b"# TYPE clients gauge\n# HELP process" in render([CLIENTS._replace(samples=[])])


def test_labels_may_come_in_any_order() -> None:
    measure = Measure("routes", "gauge", "", [({"a": "1", "b": "2"}, 1), ({"b": "2", "a": "3"}, 2)])
    assert read(render([measure]))["routes"] == [({"a": "1", "b": "2"}, 1), ({"a": "3", "b": "2"}, 2)]


@pytest.mark.parametrize("name", ['"', "\\", "a\nb", "{x}", "é", ""])
def test_a_label_may_hold_any_text(name: str) -> None:
    assert read(render([Measure("topics", "gauge", "", [({"topic": name}, 1)])]))["topics"] == [({"topic": name}, 1)]


def test_half_a_character_in_a_label_does_not_cost_the_page() -> None:
    measure = Measure("topics", "gauge", "", [({"topic": "a\ud800"}, 1)])
    assert read(render([measure]))["topics"] == [({"topic": "a?"}, 1)]


def test_nothing_is_remembered_from_one_page_to_the_next() -> None:
    render([REQUESTS])
    assert "requests_total" not in read(render([CLIENTS]))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"pocketmq\[metrics\]"):
        render([CLIENTS])


def test_the_library_is_not_loaded_until_something_is_rendered() -> None:
    program = "import sys, pocketmq.service.health; print({'prometheus_client', 'http.server'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("set()\n", "")
