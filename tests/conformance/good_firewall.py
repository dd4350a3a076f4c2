"""The suite for a firewall driver that keeps its promises; `test_broken_firewalls` runs it."""

from imaginary_firewall import GoodFirewall
from imaginary_firewall_suites import suite

TestGoodFirewall = suite(GoodFirewall)
