"""Requests by chance: half sensible, half hostile, on whatever exists by then."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from netfw.server.api.resource_registry import ResourceRegistry
from netfw.server.api.schema.resource_schema import ApiAttribute, ApiResource, Verb
from tests.server.api.environment import Client, Reply

HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**64,
    10**400,
    1.5,
    "",
    " ",
    "x",
    "x" * 256,
    "x" * 70_000,
    "\x00",
    "\ud800",
    "é" * 90,
    "\u2028",
    "%s%n",
    "'; drop table ports; --",
    "../../etc/passwd",
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    ["a", 1, None],
    [{"ip_address": "10.0.0.1", "ip_adress": 1}],
    {"a": {"b": {"c": {"d": [1, 2, {"e": None}]}}}},
    ["x"] * 5000,
)
WORDS = tuple(
    """
    10.0.0.0/24 10.0.0.0/30 10.0.0.5 10.0.0.1 fe80::1 2001:db8::/64 2001:db8::5 0.0.0.0/0 ::/0
    255.255.255.255 224.0.0.1 02:00:00:00:00:01 ff:ff:ff:ff:ff:ff tcp udp icmp 6 255 ingress
    egress IPv4 IPv6 4 slaac dhcpv6-stateful vxlan flat vlan local physnet1 1 4094 1500 68 true
    false name normal direct host1 compute:nova network:dhcp network:router_interface alice bob
    """.split()  # noqa: SIM905
)
ON_WHOLE = ("GET", "POST", "POST", "POST")
ON_MEMBER = ("GET", "PUT", "PUT", "PUT", "DELETE")
OFTEN = ("network", "subnet", "port", "port", "router", "floatingip", "security_group_rule")


class Chance:
    """Asks an API what comes to its mind, and remembers what exists."""

    def __init__(self, client: Client, catalog: ResourceRegistry, seed: int) -> None:
        self.random = Random(seed)
        self.client, self.resources = client, catalog.resources
        self.ids: dict[str, list[str]] = defaultdict(list)
        self.statuses: dict[int, int] = defaultdict(int)
        self.sane = False
        """Whether the request at hand makes sense as far as chance allows."""

    def prepare(self) -> None:
        """Have a way out for routers and floating IPs."""
        admin = self.client.as_("root/admin")
        outside = admin.network(router__external=True, shared=True)["id"]
        subnet = admin.make("subnets", network_id=outside, cidr="203.0.113.0/24")
        self.ids["network"], self.ids["subnet"] = [outside] * 3, [subnet["id"]]

    def step(self) -> None:
        """Send one request, which must not be answered by a fault of the server."""
        method, path, query, data = self._request()
        who = self.random.choice(("alice/member", "root/admin", "bob/member", "alice/reader"))
        reply = self.client.as_(who).raw(method, path, data, query)
        self.statuses[reply.status] += 1
        assert reply.status < 500, (method, path, query, data[:2000], reply.data)
        self._remember(path, reply)

    def _request(self) -> tuple[str, str, str, bytes]:
        chance = self.random
        self.sane = chance.random() < 0.6
        often = [each for each in self.resources if each.name in OFTEN]
        resource = chance.choice(often if chance.random() < 0.7 else self.resources)
        path, member = self._path(resource)
        method = chance.choice(ON_MEMBER if member else ON_WHOLE)
        if not self.sane and chance.random() < 0.2:
            method = chance.choice(("PATCH", "PUT", "DELETE", "OPTIONS", "POST"))
        query = urlencode(self._parameters(resource)) if chance.random() < 0.3 else ""
        body: Any = {}
        if resource.actions and member and chance.random() < 0.3:
            action = chance.choice(resource.actions)
            path, method = f"{path}/{action.name}", chance.choice((action.method, method))
            body = self._body(action.attributes, 0.7)
            body = body if action.envelope is None else {action.envelope: body}
        elif resource.tags and member and chance.random() < 0.2:
            path, body = f"{path}/tags", {"tags": chance.choice(HOSTILE)}
            if chance.random() < 0.5:
                path = f"{path}/{chance.choice(WORDS[:3])}"
        else:
            given = [each for each in resource.attributes if self._fits(each, member)]
            body = {resource.singular: self._body(given, 0.15 if self.sane else 0.3)}
            if chance.random() < 0.1:
                body = {resource.plural: [self._body(given, 0.3) for _ in range(3)]}
        if not self.sane and chance.random() < 0.06:
            body = chance.choice(HOSTILE)
        data = b"" if method in ("GET", "DELETE", "OPTIONS") else json.dumps(body).encode()
        if data and not self.sane and chance.random() < 0.1:
            cut = chance.randrange(len(data))
            data = data[:cut] + chance.randbytes(3) + data[cut:]
        return method, path, query, data

    def _fits(self, attribute: ApiAttribute, member: bool) -> bool:
        declared = attribute.update if member else attribute.create
        return declared or (not self.sane and self.random.random() < 0.02)

    def _path(self, resource: ApiResource) -> tuple[str, bool]:
        path = f"/v2.0/{resource.collection}"
        if resource.parent is not None:
            parent = next(each for each in self.resources if each.name == resource.parent)
            path = f"/v2.0/{parent.collection}/{self._id(parent.name)}/{resource.collection}"
        if self.random.random() < 0.45:
            return path, False
        return f"{path}/{self._id(resource.name)}", True

    def _id(self, name: str) -> str:
        known = self.ids[name]
        if known and (self.sane or self.random.random() < 0.9):
            return self.random.choice((*known[:2], *known[-8:]))
        return self.random.choice((str(UUID(int=self.random.getrandbits(128))), "x", "%00", "é"))

    def _body(self, attributes: Any, share: float) -> dict[str, Any]:
        return {
            each.name: self._value(each.name)
            for each in attributes
            if each.required or self.random.random() < share * self.random.random()
        }

    def _value(self, name: str) -> Any:
        chance = self.random
        if not self.sane and chance.random() < 0.15:
            return chance.choice(HOSTILE)
        if name.endswith("_id") and name not in ("project_id", "tenant_id", "device_id"):
            return self._id(self._kind(name))
        word = chance.choice(WORDS)
        shaped = {
            "cidr": f"10.{chance.randrange(4)}.{chance.randrange(4)}.0/24",
            "security_groups": [self._id("security_group")],
            "fixed_ips": [{"subnet_id": self._id("subnet")}, {"ip_address": word}],
            "allowed_address_pairs": [{"ip_address": word}],
            "external_gateway_info": {"network_id": self._id("network")},
            "routes": [{"destination": chance.choice(WORDS), "nexthop": word}],
            "host_routes": [{"destination": chance.choice(WORDS), "nexthop": word}],
        }
        plain = {
            "direction": ("ingress", "egress"),
            "protocol": ("tcp", "udp", "icmp", None),
            "ethertype": ("IPv4", "IPv6"),
            "network_type": ("vxlan",),
            "name": WORDS,
            "description": WORDS,
            "project_id": ("alice",),
            "mtu": (1500, 68, 1280),
        }
        some = plain.get(name, (word, chance.randrange(70_000), True, False))
        return shaped.get(name, chance.choice(some))

    def _kind(self, attribute: str) -> str:
        word = attribute.removesuffix("_id").removeprefix("floating_").removeprefix("remote_")
        return {"group": "security_group"}.get(word, word)

    def _parameters(self, resource: ApiResource) -> list[tuple[str, Any]]:
        names = [each.name for each in resource.attributes]
        names += ["limit", "marker", "sort_key", "sort_dir", "fields", "page_reverse", "tags", "x"]
        chosen = [self.random.choice(names) for _ in range(self.random.randrange(1, 4))]
        return [(name, self._parameter(name, names)) for name in chosen]

    def _parameter(self, name: str, names: list[str]) -> Any:
        if name in ("sort_key", "fields"):
            return self.random.choice(names)
        texts = [each for each in HOSTILE if isinstance(each, str) and "\ud800" not in each]
        return self.random.choice((*WORDS, *texts, "asc", "ip_address=10.0.0.1"))

    def _remember(self, path: str, reply: Reply) -> None:
        if reply.status != 201 or not reply.data:
            return
        for resource in self.resources:
            if Verb.CREATE in resource.verbs and path.endswith(f"/{resource.collection}"):
                made = reply.json
                rows = made.get(resource.plural) or [made.get(resource.singular) or {}]
                for row in rows:
                    if row.get(resource.identity):
                        self.ids[resource.name].append(row[resource.identity])
