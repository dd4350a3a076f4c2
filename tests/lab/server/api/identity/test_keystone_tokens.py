"""keystonemiddleware as we use it, against a stand-in for Keystone in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from netfw.conf import identity as options
from netfw.errors import BackendUnavailable, ConfigError, Unauthorized
from netfw.server.api.identity.factory import make_methods
from netfw.server.api.identity.keystone import BoundedCache
from tests import ROOT

STAND_IN = ROOT / "tests/tempest/keystone_stand_in.py"


class StandIn(subprocess.Popen[str]):
    """The process of the stand-in for Keystone, and its address."""

    url: str


@pytest.fixture
def keystone() -> Iterator[StandIn]:
    process = StandIn([sys.executable, STAND_IN], stdout=subprocess.PIPE, text=True)
    try:
        process.url = json.loads(process.stdout.readline())["url"]
        yield process
    finally:
        process.kill()
        process.communicate()


def call(url, body=None, method=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.headers, json.loads(answer.read() or b"null")


def token(url, user="admin", **scope):
    scope = scope or {"project": {"name": "admin", "domain": {"id": "default"}}}
    who = {"name": user, "domain": {"id": "default"}, "password": user}
    proof = {"methods": ["password"], "password": {"user": who}}
    headers, body = call(f"{url}/auth/tokens", {"auth": {"identity": proof, "scope": scope}})
    return headers["X-Subject-Token"], body["token"]


ACCOUNT = {
    "auth_type": "password",
    "username": "service",
    "password": "service",
    "project_name": "service",
    "user_domain_id": "default",
    "project_domain_id": "default",
    "http_request_max_retries": "0",
    "service_token_roles_required": "true",
}


def made_identity(tmp_path, url, **values):
    settings = {**ACCOUNT, "auth_url": url, "www_authenticate_uri": url, **values}
    lines = [f"{name} = {value}" for name, value in settings.items() if value]
    file = tmp_path / "netfw.conf"
    file.write_text("\n".join(["[identity]", "methods = keystone", "[keystone_authtoken]", *lines]))
    conf = cfg.ConfigOpts()
    for group, opts in options.list_opts():
        conf.register_opts(opts, group=group)
    conf(["--config-file", str(file)])
    return make_methods(conf, lambda requester: "admin" in requester.roles)


@pytest.fixture
def identity(keystone, tmp_path):
    return made_identity(tmp_path, keystone.url)


def environ(key, **more):
    return {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/v2.0/networks",
        "REMOTE_ADDR": "192.0.2.1",
        "SERVER_NAME": "netfw",
        "SERVER_PORT": "9696",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
        **({} if key is None else {"HTTP_X_AUTH_TOKEN": key}),
        **more,
    }


@pytest.mark.spec("API-10")
def test_keystone_token_authenticates(keystone, identity):
    key, known = token(keystone.url)
    requester = identity(environ(key, **{"netfw.request_id": "req-1"}))
    assert requester.project_id == known["project"]["id"]
    assert requester.user == known["user"]["id"]
    assert requester.roles == {"admin", "manager", "member", "reader"}
    assert (requester.admin, requester.request_id) == (True, "req-1")


def test_an_administrator_of_the_whole_cloud_needs_no_project(keystone, identity):
    key, _ = token(keystone.url, system={"all": True})
    assert (identity(environ(key)).project_id, identity(environ(key)).admin) == ("", True)


@pytest.mark.spec("API-10", "API-04")
@pytest.mark.parametrize("key", [None, "guess", "x" * 5000])
def test_request_without_keystone_token_gets_its_uri(keystone, identity, key):
    forged = {"HTTP_X_ROLES": "admin", "HTTP_X_USER_ID": "a", "HTTP_X_IDENTITY_STATUS": "Confirmed"}
    with pytest.raises(Unauthorized) as refusal:
        identity(environ(key, **forged))
    assert refusal.value.challenge == f'Keystone uri="{keystone.url}"'


def test_identity_headers_beside_a_token_are_ignored(keystone, identity):
    key, _ = token(keystone.url, user="service", project={"name": "service"})
    requester = identity(environ(key, HTTP_X_ROLES="admin", HTTP_X_PROJECT_ID="admin"))
    assert (requester.admin, requester.roles) == (False, {"service"})


def test_validated_token_is_cached(keystone, identity):
    key, _ = token(keystone.url)
    first = identity(environ(key))
    keystone.kill()
    keystone.wait()
    assert identity(environ(key)) == first
    with pytest.raises(BackendUnavailable):
        identity(environ("another"))


def test_a_server_without_an_account_at_keystone_does_not_start(keystone, tmp_path):
    with pytest.raises(ConfigError, match="auth_type is missing"):
        made_identity(tmp_path, keystone.url, auth_type="")


def test_token_cache_evicts_the_least_used_and_the_expired():
    now = [0.0]
    cache = BoundedCache(2, lambda: now[0])
    for key in ("a", "b"):
        cache.set(key, key.encode(), time=10)
    cache.get("a")
    cache.set("c", b"c", time=20)
    assert [cache.get(key) for key in "abc"] == [b"a", None, b"c"]
    now[0] = 15
    assert [cache.get(key) for key in "abc"] == [None, None, b"c"]
