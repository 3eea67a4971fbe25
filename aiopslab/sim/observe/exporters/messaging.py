"""Topics and consumer groups as the OpenTelemetry collector's Kafka receiver reports them: one partition each.

While the broker is down there is nothing to ask, and the series end.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from aiopslab.sim.observe.exporters.page import Cluster, Layout, Page, Pairs, describe
from aiopslab.sim.observe.exporters.spans import COLLECTOR
from aiopslab.sim.observe.series import SeriesStore
from aiopslab.sim.world.counters import CounterSnapshot, GroupCounters

_PARTITION: Pairs = (("partition", "0"),)


class Messaging:
    """Offsets, lags and members of every consumer group that reads from a running broker."""

    metadata = describe(
        [
            ("kafka_brokers", "gauge", "Number of brokers in the cluster."),
            ("kafka_topic_partitions", "gauge", "Number of partitions in topic."),
            ("kafka_partition_current_offset", "gauge", "Current offset of partition of topic."),
            ("kafka_partition_oldest_offset", "gauge", "Oldest offset of partition of topic."),
            ("kafka_consumer_group_offset", "gauge", "Current offset of the consumer group at partition of topic."),
            (
                "kafka_consumer_group_offset_sum",
                "gauge",
                "Sum of consumer group offset across partitions of topic.",
            ),
            (
                "kafka_consumer_group_lag",
                "gauge",
                "Current approximate lag of consumer group at partition of topic.",
            ),
            ("kafka_consumer_group_lag_sum", "gauge", "Current approximate sum of consumer group lag of topic."),
            ("kafka_consumer_group_members", "gauge", "Count of members in the consumer group."),
        ]
    )

    def __init__(self, series: SeriesStore) -> None:
        self._series = series
        self._known: list[tuple[str, str, str]] = []
        self._layout = Layout(series)
        self._ids = self._layout.array()

    def collect(self, snapshot: CounterSnapshot, cluster: Cluster) -> Page:
        """All groups outside hidden namespaces."""
        groups = [g for g in snapshot.groups if g.namespace not in cluster.hidden]
        keys = [(g.namespace, g.topic, g.group) for g in groups]
        if keys != self._known:
            self._known = keys
            self._layout = Layout(self._series)
            self._walk(groups, self._layout)
            self._ids = self._layout.array()
        return Page(self._ids, np.array(self._walk(groups, None)), dict(self._layout.counts))

    def _walk(self, groups: list[GroupCounters], layout: Layout | None) -> list[float]:
        """The values in the order of their series, which are added to ``layout`` when there is one."""
        values: list[float] = []

        def sample(metric: str, value: float, *labels: Pairs) -> None:
            if layout is not None:
                layout.add(metric, COLLECTOR, *labels)
            values.append(float(value))

        for namespace, of_namespace in groupby(groups, key=lambda g: g.namespace):
            place: Pairs = (("k8s_namespace_name", namespace),)
            sample("kafka_brokers", 1, place)
            for name, of_topic in groupby(of_namespace, key=lambda g: g.topic):
                topic: Pairs = (*place, ("topic", name))
                members = list(of_topic)
                sample("kafka_topic_partitions", 1, topic)
                sample("kafka_partition_current_offset", members[0].end_offset, topic, _PARTITION)
                sample("kafka_partition_oldest_offset", 0, topic, _PARTITION)
                for group in members:
                    who: Pairs = (*topic, ("group", group.group))
                    lag = group.end_offset - group.offset
                    sample("kafka_consumer_group_offset", group.offset, who, _PARTITION)
                    sample("kafka_consumer_group_offset_sum", group.offset, who)
                    sample("kafka_consumer_group_lag", lag, who, _PARTITION)
                    sample("kafka_consumer_group_lag_sum", lag, who)
                    sample("kafka_consumer_group_members", group.members, (*place, ("group", group.group)))
        return values
