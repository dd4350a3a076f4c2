"""Service namespaces: a namespace of a service with one plugged port, kept as desired."""

from netfw.linux.service_netns.drift_monitor import DriftMonitor
from netfw.linux.service_netns.executor import ServiceNetnsExecutor
from netfw.linux.service_netns.plan import plan_removal, plan_service_netns
from netfw.linux.service_netns.values import ObservedNetns, ServiceNetns, why_without_ipv6

__all__ = [
    "DriftMonitor",
    "ObservedNetns",
    "ServiceNetns",
    "ServiceNetnsExecutor",
    "plan_removal",
    "plan_service_netns",
    "why_without_ipv6",
]
