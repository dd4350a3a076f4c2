"""station: a namespace of a service with one plugged port, kept as it should be."""

from netfw.linux.station.guard import Guard
from netfw.linux.station.plan import plan_removal, plan_station
from netfw.linux.station.stations import Stations
from netfw.linux.station.values import FoundStation, Station, why_without_ipv6

__all__ = [
    "FoundStation",
    "Guard",
    "Station",
    "Stations",
    "plan_removal",
    "plan_station",
    "why_without_ipv6",
]
