"""The configuration of a proxy, to the letter."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.metadata import IDENTIFYING, MetadataDriver, MetadataProxy
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.errors import ConfigError, InvalidInput
from netfw.model.values.ids import NetworkId, RouterId
from netfw_drivers.haproxy.config import render_config
from netfw_drivers.haproxy.settings import OPTIONS, Settings, Window, read_settings

NETWORK = NetworkKey(NetworkId(UUID("11111111-2222-3333-4444-555555555555")))
ROUTER = RouterKey(RouterId(UUID("99999999-8888-7777-6666-555555555555")))
SETTINGS = Settings(socket="/run/netfw/metadata", directory=Path("/var/lib/netfw/proxies"))
PROXY = MetadataProxy(
    netns="qdhcp-1", addresses=(ip_address("169.254.169.254"),), device="tap11111111-22"
)

GOLDEN = r"""# Metadata proxy of network 11111111-2222-3333-4444-555555555555, written by netfw: changes are lost.
global
    nbthread 1
    maxconn 1024
    noreuseport
    .if version_atleast(2.6)
    .if feature(OPENSSL)
    httpclient.ssl.verify none
    .endif
    .endif
defaults
    mode http
    option http-server-close
    option http-buffer-request
    option disable-h2-upgrade
    timeout http-request 10s
    timeout http-keep-alive 10s
    timeout client 30s
    timeout connect 5s
    timeout queue 60s
    timeout server 60s
listen metadata
    bind 169.254.169.254:80 transparent
    bind [fe80::a9fe:a9fe]:80 transparent v6only interface 'tap11111111-22'
    tcp-request connection track-sc2 src table connections
    tcp-request connection reject if { sc_conn_cur(2) gt 128 }
    http-request deny deny_status 405 unless { method GET HEAD POST PUT }
    http-request deny deny_status 400 unless HTTP_1.0 || HTTP_1.1
    http-request deny deny_status 400 unless { path -m beg / }
    http-request deny deny_status 400 if { req.hdr(transfer-encoding) -m found }
    http-request deny deny_status 400 if { req.hdrs -m reg '[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]' }
    http-request deny deny_status 400 if !{ method POST PUT } { req.body_size gt 0 }
    http-request deny deny_status 413 if { req.body_size gt 65536 }
    http-request set-uri %[pathq]
    http-request del-header _ -m sub
    http-request del-header '^(forwarded|x-forwarded.*|x-real-.*|client-ip|true-client-ip|cf-connecting-ip|x-client-.*|x-cluster-client-.*|x-original-.*|x-originating-.*|x-remote-.*|x-rewrite-.*|x-http-method.*|x-method-override|x-neutron-.*|x-instance-id.*|x-tenant-id.*|x-project-id.*|x-metadata-provider.*)$' -m reg
    http-request del-header '^(connection|proxy-.*|keep-alive|te|trailer|upgrade|expect)$' -m reg
    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Neutron-Network-ID 11111111-2222-3333-4444-555555555555
    server agent 'unix@/run/netfw/metadata'
backend connections
    stick-table type ipv6 size 16384 expire 1m store conn_cur
"""  # noqa: E501

LOGGING = {
    "log global",
    "option httplog",
    "option dontlognull",
    "option log-separate-errors",
}


def lines(settings: Settings = SETTINGS, key=NETWORK, proxy: MetadataProxy = PROXY) -> list[str]:
    return [line.strip() for line in render_config(key, proxy, settings).splitlines()]


def added(settings: Settings, **other) -> set[str]:
    return set(lines(settings, **other)) - set(lines(**other))


@pytest.mark.spec("MD-02")
def test_a_network_s_proxy():
    assert render_config(NETWORK, PROXY, SETTINGS) == GOLDEN


def test_a_router_s_proxy_differs_by_its_id_and_place():
    proxy = MetadataProxy(netns="qrouter-1", port=9697)
    assert set(lines(key=ROUTER, proxy=proxy)) - set(lines()) == {
        "# Metadata proxy of router 99999999-8888-7777-6666-555555555555, written by netfw: "
        "changes are lost.",
        "bind 0.0.0.0:9697 transparent",
        "http-request set-header X-Neutron-Router-ID 99999999-8888-7777-6666-555555555555",
    }


@pytest.mark.parametrize(
    ("proxy", "binds"),
    [
        (evolve(PROXY, device=None), ["169.254.169.254:80 transparent"]),
        (
            evolve(PROXY, addresses=(), device="tap1"),
            [
                "0.0.0.0:80 transparent",
                "[fe80::a9fe:a9fe]:80 transparent v6only interface 'tap1'",
            ],
        ),
        (
            evolve(PROXY, addresses=(ip_address("fd00::1"), ip_address("10.0.0.1")), device=None),
            ["[fd00::1]:80 transparent v6only", "10.0.0.1:80 transparent"],
        ),
        (
            evolve(PROXY, addresses=(ip_address("fe80::a9fe:a9fe"),) * 2, device="tap1"),
            ["[fe80::a9fe:a9fe]:80 transparent v6only interface 'tap1'"],
        ),
        (
            evolve(PROXY, addresses=(ip_address("10.0.0.1"),) * 2, device=None),
            ["10.0.0.1:80 transparent"],
        ),
    ],
)
def test_where_it_listens(proxy: MetadataProxy, binds: list[str]):
    found = [line.removeprefix("bind ") for line in lines(proxy=proxy) if line.startswith("bind")]
    assert found == binds


def test_a_machine_without_ipv6_serves_ipv4():
    assert set(lines()) - set(lines(evolve(SETTINGS, ipv6=False))) == {
        "bind [fe80::a9fe:a9fe]:80 transparent v6only interface 'tap11111111-22'"
    }


def test_a_link_local_address_needs_a_device():
    with pytest.raises(InvalidInput, match="device: fe80::1 is on every device"):
        render_config(
            NETWORK, evolve(PROXY, addresses=(ip_address("fe80::1"),), device=None), SETTINGS
        )


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({"user": "haproxy", "group": "www-data"}, {"user 'haproxy'", "group 'www-data'"}),
        ({"user": "107", "group": "110"}, {"uid 107", "gid 110"}),
        ({"log_file": Path("/var/log/x y")}, {"log stdout format iso local0 notice", *LOGGING}),
        (
            {"syslog": "/dev/log", "log_level": "info"},
            {"log-tag netfw-metadata-proxy", "log '/dev/log' local0 info", *LOGGING},
        ),
        (
            {"maxconn": 7},
            {"maxconn 7", "tcp-request connection reject if { sc_conn_cur(2) gt 8 }"},
        ),
        (
            {"windows": (Window(60, 20), Window(2, 5))},
            {
                "http-request track-sc0 src table window0",
                "http-request track-sc1 src table window1",
                "http-request deny deny_status 429 if { sc_http_req_rate(0) gt 20 }",
                "http-request deny deny_status 429 if { sc_http_req_rate(1) gt 5 }",
                "backend window0",
                "stick-table type ipv6 size 16384 expire 60s store http_req_rate(60s)",
                "backend window1",
                "stick-table type ipv6 size 16384 expire 2s store http_req_rate(2s)",
            },
        ),
        (
            {"request_timeout": 40},
            {"timeout http-request 40s", "timeout http-keep-alive 40s", "timeout client 40s"},
        ),
        ({"answer_timeout": 5}, {"timeout queue 5s", "timeout server 5s"}),
        ({"socket": '/run/a # b/"c'}, {"server agent 'unix@/run/a # b/\"c'"}),
    ],
)
@pytest.mark.spec("MD-11")
def test_an_option_is_a_line(options: dict, more: set[str]):
    assert added(evolve(SETTINGS, **options)) == more


def test_every_identifying_header_is_deleted():
    patterns = [re.search("'(.*)'", line) for line in lines() if "del-header '" in line]
    for name in IDENTIFYING:
        assert any(pattern and re.fullmatch(pattern[1], name) for pattern in patterns), name


def defaults(**options: object) -> dict:
    return {option.dest: option.default for option in OPTIONS} | options


def test_the_defaults_are_where_operators_look():
    settings = read_settings(defaults())
    assert settings.socket == "/var/lib/netfw/metadata/proxy"
    assert settings.directory == Path("/var/lib/netfw/ns-metadata-proxy")
    assert (settings.user, settings.group, settings.log_file) == (None, None, None)
    assert settings.syslog == "/dev/log"


def test_limits_are_off_until_they_are_wanted():
    assert read_settings(defaults(base_query_rate_limit=5)).windows == ()
    assert read_settings(defaults(rate_limit_enabled=True)).windows == (Window(10, 10),)
    both = read_settings(defaults(rate_limit_enabled=True, base_window_duration=60))
    assert both.windows == (Window(60, 10), Window(10, 10))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"metadata_proxy_socket": "here"},
            "metadata_proxy_socket: 'here' is not an absolute path",
        ),
        ({"metadata_proxy_socket": "/" + "a" * 107}, "longer than the 107 bytes"),
        ({"metadata_proxy_socket": ""}, "neither may be empty"),
        ({"metadata_proxy_confs": "/a'b"}, "metadata_proxy_confs: .* has a quote"),
        ({"metadata_proxy_user": "a\nb"}, "metadata_proxy_user: .* control character"),
        ({"metadata_proxy_syslog": "/dev/log'\nstats"}, "metadata_proxy_syslog"),
        ({"metadata_proxy_log_file": "log"}, "metadata_proxy_log_file: 'log' is not an absolute"),
    ],
)
def test_what_could_be_misread_is_refused(options: dict[str, str], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        read_settings(defaults(**options))


def test_it_is_found_by_its_name_and_made_without_touching_anything():
    driver = create(
        MetadataDriver, "haproxy", {"metadata_proxy_confs": "/nowhere"}, LocalHostResources()
    )
    assert driver.describe().name == "haproxy"
    assert not Path("/nowhere").exists()
    driver.close()


@pytest.mark.parametrize(
    "wrong", [{"port": 0}, {"port": 65536}, {"device": "a b"}, {"device": "x\nbind :1"}]
)
def test_what_no_proxy_can_be_is_no_value(wrong: dict):
    with pytest.raises(ValueError, match="not a"):
        evolve(PROXY, **wrong)
