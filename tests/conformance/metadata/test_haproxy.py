"""The haproxy driver keeps the contract, with real guests in real namespaces."""

from __future__ import annotations

from typing import ClassVar

import pytest

from netfw.drivers.metadata import MetadataDriver
from netfw.testing.conformance.metadata.haproxy_suite import HaproxyConformance
from netfw_drivers.haproxy.driver import HaproxyMetadataDriver

pytestmark = pytest.mark.services


@pytest.mark.spec("MD-01", "MD-02", "DHCP-61")
class TestHaproxyMetadataDriver(HaproxyConformance):
    DRIVER: ClassVar[type[MetadataDriver]] = HaproxyMetadataDriver

    @pytest.mark.spec("MD-10")
    def test_a_client_cannot_set_its_identity(self, driver: MetadataDriver) -> None:
        super().test_a_client_cannot_set_its_identity(driver)
