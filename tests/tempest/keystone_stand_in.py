"""A stand-in for Keystone: as much of its API v3 as Tempest and keystonemiddleware ask for.

It is a stand-in for Nova too, as far as tests of ports need it: the list of hypervisors, which has
the host that the network agents run on.

    python tests/tempest/keystone_stand_in.py --network http://127.0.0.1:9696

It prints one line of JSON with its URL when it serves, and everything is gone when it ends.  At
first there are the domain ``default``, the project and user ``admin`` (password ``admin``), the
project and user ``service``, and the roles that OpenStack's services know.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import threading
import uuid
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

IMPLIED = {"admin": ("manager",), "manager": ("member",), "member": ("reader",)}
ROLES = ("admin", "manager", "member", "reader", "service")
SINGULAR = {"projects": "project", "users": "user", "roles": "role", "domains": "domain"}
SYSTEM = "system"
HYPERVISOR = "host1"


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Directory:
    """Who is who, and who may be what where."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kinds: dict[str, dict[str, dict]] = {name: {} for name in SINGULAR}
        self.passwords: dict[str, str] = {}
        self.grants: set[tuple[str, str, str]] = set()
        self.tokens: dict[str, dict] = {}
        self.make("domains", {"name": "Default"}, id="default")
        roles = {name: self.make("roles", {"name": name})["id"] for name in ROLES}
        for name, role in (("admin", "admin"), ("service", "service")):
            project = self.make("projects", {"name": name})
            user = self.make("users", {"name": name, "password": name})
            self.grants.add((project["id"], user["id"], roles[role]))
            self.grants.add((SYSTEM, user["id"], roles[role]))

    def make(self, kind: str, given: dict, id: str | None = None) -> dict:
        given = dict(given)
        if any(each["name"] == given.get("name") for each in self.find(kind, {})):
            raise Refused(409, f"there is one of {kind} called {given.get('name')}")
        found = {"id": id or uuid.uuid4().hex, "enabled": True, "description": "", "links": {}}
        if kind in ("projects", "users"):
            found["domain_id"] = "default"
        if "password" in given:
            self.passwords[found["id"]] = given.pop("password")
        self.kinds[kind][found["id"]] = found | given
        return found | given

    def find(self, kind: str, query: dict) -> list[dict]:
        return [
            each
            for each in self.kinds[kind].values()
            if all(str(each.get(name)) == value for name, value in query.items())
        ]

    def one(self, kind: str, id: str) -> dict:
        if id not in self.kinds[kind]:
            raise Refused(404, f"there is none of {kind} with the id {id}")
        return self.kinds[kind][id]

    def remove(self, kind: str, id: str) -> None:
        self.one(kind, id)
        del self.kinds[kind][id]
        self.grants = {grant for grant in self.grants if id not in grant}
        self.tokens = {key: each for key, each in self.tokens.items() if id not in each["ids"]}

    def roles_of(self, user: str, place: str) -> list[dict]:
        ids = [role for where, who, role in self.grants if (where, who) == (place, user)]
        names = {self.kinds["roles"][id]["name"] for id in ids}
        for name in ROLES:  # in the order in which they imply each other
            if name in names:
                names.update(IMPLIED.get(name, ()))
        return [each for each in self.kinds["roles"].values() if each["name"] in names]


def named(directory: Directory, kind: str, body: dict) -> dict:
    """Return what a request names by id, or by name."""
    if "id" in body:
        return directory.one(kind, body["id"])
    found = directory.find(kind, {"name": body.get("name", "")})
    if not found:
        raise Refused(401, "wrong user, project or password")
    return found[0]


def issue(directory: Directory, request: dict, catalog: list) -> tuple[str, dict]:
    """Issue a token to a user with a valid token or password."""
    auth = request["auth"]
    proof = auth["identity"]
    if "token" in proof["methods"]:
        former = directory.tokens.get(proof["token"]["id"])
        if former is None:
            raise Refused(401, "an unknown token")
        user = directory.one("users", former["token"]["user"]["id"])
    else:
        user = named(directory, "users", proof["password"]["user"])
        if directory.passwords.get(user["id"]) != proof["password"]["user"].get("password"):
            raise Refused(401, "wrong user, project or password")
    token = describe(user, proof["methods"])
    place = scope(directory, auth.get("scope"), token)
    if place is not None:
        token["roles"] = directory.roles_of(user["id"], place)
        token["catalog"] = catalog
        if not token["roles"]:
            raise Refused(401, "no role there")
    key = secrets.token_urlsafe(24)
    directory.tokens[key] = {"token": token, "ids": {user["id"], place}}
    return key, {"token": token}


def describe(user: dict, methods: list) -> dict:
    now = datetime.now(UTC).replace(tzinfo=None)
    domain = {"id": "default", "name": "Default"}
    return {
        "methods": methods,
        "user": {"id": user["id"], "name": user["name"], "domain": domain},
        "issued_at": now.isoformat() + "Z",
        "expires_at": (now + timedelta(hours=8)).isoformat() + "Z",
        "audit_ids": [secrets.token_urlsafe(8)],
    }


def scope(directory: Directory, asked: dict | None, token: dict) -> str | None:
    if asked is None or asked == "unscoped":
        return None
    if SYSTEM in asked:
        token[SYSTEM] = {"all": True}
        return SYSTEM
    if "domain" in asked:
        domain = named(directory, "domains", asked["domain"])
        token["domain"] = {"id": domain["id"], "name": domain["name"]}
        return domain["id"]
    project = named(directory, "projects", asked["project"])
    domain = directory.one("domains", project["domain_id"])
    token["project"] = {
        "id": project["id"],
        "name": project["name"],
        "domain": {"id": domain["id"], "name": domain["name"]},
    }
    return project["id"]


class Handler(BaseHTTPRequestHandler):
    """One request; what is asked for is looked up in ``ROUTES``."""

    protocol_version = "HTTP/1.1"
    server: StandIn

    def answer(self) -> None:
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query))
        length = int(self.headers.get("Content-Length") or 0)
        try:
            self.body = json.loads(self.rfile.read(length) or b"{}")
            with self.server.directory.lock:
                status, body, headers = self.route(url.path.rstrip("/") or "/")
        except Refused as refusal:
            status, headers = refusal.status, {}
            body = {"error": {"code": status, "message": str(refusal), "title": "Refused"}}
        self.reply(status, body, headers)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

    def route(self, path: str) -> tuple[int, object, dict]:
        method = "GET" if self.command == "HEAD" else self.command
        for wanted, pattern, work in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and wanted == method:
                if "auth" not in path and path not in ("/", "/v3"):
                    self.must_be_known()
                return work(self, *found.groups())
        raise Refused(404, f"the stand-in has no {method} {path}")

    def must_be_known(self) -> None:
        if self.headers.get("X-Auth-Token") not in self.server.directory.tokens:
            raise Refused(401, "an unknown token")

    def reply(self, status: int, body: object, headers: dict) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Vary": "X-Auth-Token"}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *values: object) -> None:
        pass

    def versions(self) -> tuple[int, object, dict]:
        return 300, {"versions": {"values": [self.server.version()]}}, {}

    def version(self) -> tuple[int, object, dict]:
        return 200, {"version": self.server.version()}, {}

    def issue(self) -> tuple[int, object, dict]:
        key, token = issue(self.server.directory, self.body, self.server.catalog())
        return 201, token, {"X-Subject-Token": key}

    def validate(self) -> tuple[int, object, dict]:
        self.must_be_known()
        subject = self.headers.get("X-Subject-Token", "")
        if subject not in self.server.directory.tokens:
            raise Refused(404, "an unknown token")
        token = self.server.directory.tokens[subject]["token"]
        return 200, {"token": token}, {"X-Subject-Token": subject}

    def revoke(self) -> tuple[int, object, dict]:
        self.server.directory.tokens.pop(self.headers.get("X-Subject-Token", ""), None)
        return 204, None, {}

    def list(self, kind: str) -> tuple[int, object, dict]:
        found = self.server.directory.find(kind, self.query)
        return 200, {kind: found, "links": {"next": None, "previous": None}}, {}

    def create(self, kind: str) -> tuple[int, object, dict]:
        key = SINGULAR[kind]
        return 201, {key: self.server.directory.make(kind, self.body[key])}, {}

    def show(self, kind: str, id: str) -> tuple[int, object, dict]:
        return 200, {SINGULAR[kind]: self.server.directory.one(kind, id)}, {}

    def update(self, kind: str, id: str) -> tuple[int, object, dict]:
        found = self.server.directory.one(kind, id)
        found.update(self.body[SINGULAR[kind]])
        return 200, {SINGULAR[kind]: found}, {}

    def delete(self, kind: str, id: str) -> tuple[int, object, dict]:
        self.server.directory.remove(kind, id)
        return 204, None, {}

    def grant(self, place: str, user: str, role: str) -> tuple[int, object, dict]:
        self.server.directory.grants.add((place.rpartition("/")[2], user, role))
        return 204, None, {}

    def withdraw(self, place: str, user: str, role: str) -> tuple[int, object, dict]:
        self.server.directory.grants.discard((place.rpartition("/")[2], user, role))
        return 204, None, {}

    def hypervisors(self) -> tuple[int, object, dict]:
        host = {"id": 1, "hypervisor_hostname": HYPERVISOR, "state": "up"}
        return 200, {"hypervisors": [host | {"status": "enabled"}]}, {}

    def granted(self, place: str, user: str) -> tuple[int, object, dict]:
        place = place.rpartition("/")[2]
        return 200, {"roles": self.server.directory.roles_of(user, place)}, {}


KIND = "(projects|users|roles|domains)"
PLACE = r"(projects/\w+|domains/\w+|system)"
ROUTES = (
    ("GET", "/", Handler.versions),
    ("GET", "/v3", Handler.version),
    ("POST", "/v3/auth/tokens", Handler.issue),
    ("GET", "/v3/auth/tokens", Handler.validate),
    ("DELETE", "/v3/auth/tokens", Handler.revoke),
    ("GET", f"/v3/{KIND}", Handler.list),
    ("POST", f"/v3/{KIND}", Handler.create),
    ("GET", rf"/v3/{KIND}/(\w+)", Handler.show),
    ("PATCH", rf"/v3/{KIND}/(\w+)", Handler.update),
    ("DELETE", rf"/v3/{KIND}/(\w+)", Handler.delete),
    ("PUT", rf"/v3/{PLACE}/users/(\w+)/roles/(\w+)", Handler.grant),
    ("DELETE", rf"/v3/{PLACE}/users/(\w+)/roles/(\w+)", Handler.withdraw),
    ("GET", rf"/v3/{PLACE}/users/(\w+)/roles", Handler.granted),
    ("GET", "/v2.1/os-hypervisors", Handler.hypervisors),
)


class StandIn(ThreadingHTTPServer):
    """The service."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, network: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.directory = Directory()
        self.network = network
        self.url = f"http://127.0.0.1:{self.server_port}/v3"
        self.compute = f"http://127.0.0.1:{self.server_port}/v2.1"

    def version(self) -> dict:
        link = {"rel": "self", "href": self.url + "/"}
        return {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [link],
            "media-types": [{"base": "application/json", "type": "application/json"}],
        }

    def catalog(self) -> list:
        places = (
            ("identity", "keystone", self.url),
            ("network", "neutron", self.network),
            ("compute", "nova", self.compute),
        )
        return [
            {
                "id": name,
                "type": type,
                "name": name,
                "endpoints": [
                    {
                        "id": f"{name}-{interface}",
                        "interface": interface,
                        "region": "RegionOne",
                        "region_id": "RegionOne",
                        "url": url,
                    }
                    for interface in ("public", "internal", "admin")
                ],
            }
            for type, name, url in places
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0: anywhere")
    parser.add_argument("--network", default="http://127.0.0.1:9696", help="URL of the network API")
    arguments = parser.parse_args()
    server = StandIn(arguments.port, arguments.network)
    sys.stdout.write(json.dumps({"url": server.url}) + "\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
