"""Authentication methods."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
from oslo_config import cfg

from netfw.cli.commands.main import main
from netfw.conf import identity as options
from netfw.drivers.server.query import RequestContext
from netfw.errors import ConfigError, InvalidInput, Unauthorized
from netfw.server.api.identity.factory import Methods, make_methods, validate_listeners
from netfw.server.api.identity.headers import ClaimedIdentity, Unauthenticated
from netfw.server.api.identity.noauth import ADMIN_ROLES, MEMBER_ROLES, NoAuth
from netfw.server.api.identity.proxy import TrustedProxy, parse_networks
from netfw.server.api.identity.tokens import (
    KnownToken,
    Tokens,
    hash_token,
    new_token,
    render_token,
)

ROOT = (1, 0, 0)
STRANGER = (2, 54321, 54321)


def unix(credentials, **headers):
    return {"netfw.peer_credentials": credentials, "REMOTE_ADDR": "", **http(headers)}


def tcp(address, **headers):
    return {"REMOTE_ADDR": address, **http({"Host": "127.0.0.1:9696", **headers})}


def http(headers):
    return {f"HTTP_{name.upper()}": value for name, value in headers.items() if value is not None}


def wants(answer):
    assert isinstance(answer, Unauthenticated)
    return answer.wants


@pytest.mark.spec("API-10")
def test_noauth_makes_root_and_named_users_and_groups_administrators():
    noauth = NoAuth(admin_uids=frozenset({0, 7}), admin_gids=frozenset({77}))
    own = ClaimedIdentity(project_id="default", user="uid-0", roles=ADMIN_ROLES)
    assert noauth(unix(ROOT)) == own
    assert noauth(unix((9, 7, 9))).roles == ADMIN_ROLES
    assert noauth(unix((9, 54321, 77))).roles == ADMIN_ROLES
    assert "noauth_admin_users" in wants(noauth(unix(STRANGER)))


def test_noauth_administrator_acts_for_the_identity_in_headers():
    noauth = NoAuth(admin_uids=frozenset({0}))
    environ = unix(ROOT, X_Project_Id="red", X_User_Id="alice", X_Roles="Member, reader,")
    assert noauth(environ) == ClaimedIdentity(
        project_id="red", user="alice", roles=frozenset({"member", "reader"})
    )
    assert noauth(unix(ROOT, X_Roles="")).roles == frozenset()


@pytest.mark.spec("API-10")
def test_noauth_other_users_are_members_of_their_own_project_if_configured():
    noauth = NoAuth(admin_uids=frozenset({0}), others_are_members=True)
    own = "uid-54321"
    assert noauth(unix(STRANGER)) == ClaimedIdentity(project_id=own, user=own, roles=MEMBER_ROLES)
    assert noauth(unix(STRANGER, X_Roles="reader")).roles == frozenset({"reader"})
    assert "no other project" in wants(noauth(unix(STRANGER, X_Project_Id="red")))
    assert "no other project" in wants(noauth(unix(STRANGER, X_User_Id="root")))
    assert "no other roles" in wants(noauth(unix(STRANGER, X_Roles="member,admin")))


@pytest.mark.spec("API-10")
@pytest.mark.parametrize(
    ("given", "environ", "served"),
    [
        ({}, tcp("127.0.0.1"), False),
        ({}, tcp(""), False),
        ({"on_loopback": True}, tcp("127.0.0.1"), True),
        ({"on_loopback": True}, tcp("::1", Host="[::1]:9696"), True),
        ({"on_loopback": True}, tcp("::ffff:127.0.0.1", Host="LOCALHOST."), True),
        ({"on_loopback": True}, tcp("192.0.2.1"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Host="evil.example:9696"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Host="localhost.evil.example"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Host=None), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Origin="http://127.0.0.1:8080"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Sec_Fetch_Site="cross-site"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Sec_Fetch_Site="same-site"), False),
        ({"on_loopback": True}, tcp("127.0.0.1", Sec_Fetch_Site="same-origin"), True),
        ({"on_loopback": True}, tcp("127.0.0.1", Sec_Fetch_Site="none"), True),
        ({"on_loopback": True}, tcp("127.0.0.1", X_Forwarded_For="192.0.2.1"), False),
        ({"allow_remote_admin": True}, tcp("192.0.2.1", Host="192.0.2.9:9696"), True),
        ({"allow_remote_admin": True}, tcp("192.0.2.1", Host="evil.example"), False),
        (
            {"allow_remote_admin": True, "hosts": frozenset({"net.lan"})},
            tcp("192.0.2.1", Host="net.lan"),
            True,
        ),
    ],
)
def test_noauth_serves_tcp_only_if_configured_and_never_a_web_page(given, environ, served):
    answer = NoAuth(admin_uids=frozenset({0}), **given)(environ)
    assert isinstance(answer, ClaimedIdentity) is served


@pytest.mark.spec("API-13")
@pytest.mark.parametrize(
    "headers",
    [
        {"X_Project_Id": "red\r\nX-Roles: admin"},
        {"X_Project_Id": "red\x00"},
        {"X_Project_Id": "\x80\xff"},
        {"X_Project_Id": "r" * 256},
        {"X_Project_Id": "red,blue"},
        {"X_Project_Id": "red", "X_Tenant_Id": "blue"},
        {"X_Roles": ",".join(f"role{number}" for number in range(101))},
        {"X_Roles": "r" * 300},
        {"X_Roles": "admin\x1b[2J"},
        {"X_User_Id": "\u2028".encode().decode("latin-1")},
    ],
)
def test_malformed_headers_are_refused_by_name_and_not_quoted(headers):
    with pytest.raises(InvalidInput) as refusal:
        NoAuth(admin_uids=frozenset({0}))(unix(ROOT, **headers))
    (name, fault), *_ = refusal.value.problems.items()
    assert name.upper().replace("-", "_") in {each.upper() for each in headers}
    assert fault.isprintable()
    assert len(fault) < 100


@pytest.mark.spec("API-16", "API-10")
def test_identity_headers_are_accepted_from_trusted_proxies_only():
    proxy = TrustedProxy(
        networks=parse_networks(["192.0.2.7", "2001:db8::/32"]), uids=frozenset({STRANGER[1]})
    )
    headers = {"X_Project_Id": "red", "X_User_Id": "alice", "X_Roles": "member"}
    alice = ClaimedIdentity(project_id="red", user="alice", roles=frozenset({"member"}))
    assert [proxy(tcp(each, **headers)) for each in ("192.0.2.7", "2001:db8::1")] == [alice, alice]
    assert proxy(unix(STRANGER, **headers)) == alice
    for environ in (
        tcp("192.0.2.8", **headers),
        tcp("127.0.0.1", **headers),
        unix(ROOT, **headers),
    ):
        assert "trusted_proxies" in wants(proxy(environ))
    invalid = tcp("192.0.2.7", **headers, X_Identity_Status="Invalid")
    assert "confirms" in wants(proxy(invalid))
    assert "X-User-Id" in wants(proxy(tcp("192.0.2.7", X_Project_Id="red")))


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "tokens"
    path.touch(mode=0o640)
    return path


@pytest.mark.spec("API-10")
def test_token_of_the_file_authenticates_until_it_expires(token_file):
    alice, bob = new_token(), new_token()
    alice_identity = ClaimedIdentity(project_id="red", user="alice", roles=frozenset({"member"}))
    operator = ClaimedIdentity(project_id="", user="bob", roles=frozenset({"admin", "member"}))
    until = datetime(2027, 1, 31, tzinfo=UTC)
    lines = [
        "# tokens",
        render_token(KnownToken(hash=hash_token(alice), identity=alice_identity)),
        "",
        render_token(KnownToken(hash=hash_token(bob), identity=operator, until=until)) + "  # bob",
    ]
    token_file.write_text("\n".join(lines))
    now = [datetime(2026, 12, 31, tzinfo=UTC)]
    tokens = Tokens(str(token_file), lambda: now[0])
    assert alice not in token_file.read_text()
    assert tokens(tcp("192.0.2.1", X_Auth_Token=alice)) == alice_identity
    assert tokens(tcp("192.0.2.1", X_Auth_Token=bob)) == operator
    assert "known here" in wants(tokens(tcp("192.0.2.1", X_Auth_Token=alice + "x")))
    assert "known here" in wants(tokens(tcp("192.0.2.1", X_Auth_Token=hash_token(alice))))
    assert "a token in" in wants(tokens(tcp("192.0.2.1")))
    now[0] = until
    assert "expired" in wants(tokens(tcp("192.0.2.1", X_Auth_Token=bob)))


def test_token_file_is_reloaded_and_a_faulty_one_changes_nothing(token_file):
    alice, bob = new_token(), new_token()
    token_file.write_text(f"{hash_token(alice)} alice red member\n")
    tokens = Tokens(str(token_file))
    token_file.write_text(f"{hash_token(bob)} bob red member\n")
    tokens.reload()
    assert tokens(tcp("192.0.2.1", X_Auth_Token=bob)).user == "bob"
    token_file.write_text("nonsense\n")
    with pytest.raises(ConfigError):
        tokens.reload()
    assert tokens(tcp("192.0.2.1", X_Auth_Token=bob)).user == "bob"
    assert isinstance(tokens(tcp("192.0.2.1", X_Auth_Token=alice)), Unauthenticated)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\nsecret alice red member\n", "line 2: the first word must be sha256:"),
        (f"{hash_token('a')} alice red\n", "line 1: must be HASH USER PROJECT ROLES"),
        (f"{hash_token('a')} alice red member,\n", "line 1: user, project and roles"),
        (f"{hash_token('a')} alice red member 2027\n", "line 1: the fifth word"),
        (f"{hash_token('a')} alice red member until=soon\n", "line 1: the time"),
        (f"{hash_token('a')} a r m\n{hash_token('a')} b r m\n", "line 2: has the token of line 1"),
    ],
)
def test_a_faulty_line_is_named_by_its_number_and_not_repeated(token_file, text, words):
    token_file.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        Tokens(str(token_file))
    assert words in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_token_file_readable_by_all_users_is_refused(token_file):
    token_file.chmod(0o644)
    with pytest.raises(ConfigError, match="every user may read it; chmod o-rwx"):
        Tokens(str(token_file))


def test_a_name_that_no_line_can_hold_is_refused():
    alice_identity = ClaimedIdentity(project_id="red", user="alice b", roles=frozenset({"member"}))
    with pytest.raises(ConfigError, match="spaces"):
        render_token(KnownToken(hash=hash_token("a"), identity=alice_identity))


def conf(**values):
    made = cfg.ConfigOpts()
    for group, opts in options.list_opts():
        made.register_opts(opts, group=group)
    made([])
    for name, value in values.items():
        made.set_override(name, value, group="identity")
    return made


def is_admin(requester):
    return "admin" in requester.roles


@pytest.mark.spec("API-10", "API-04")
def test_methods_are_tried_in_order_and_a_refusal_says_what_each_wants(token_file):
    alice = new_token()
    token_file.write_text(f"{hash_token(alice)} alice red member\n")
    identity = make_methods(
        conf(methods=["noauth", "tokens"], token_file=str(token_file)), is_admin
    )
    me = identity({**unix((1, os.geteuid(), 1)), "netfw.request_id": "req-1"})
    assert (me.admin, me.project_id, me.request_id) == (True, "default", "req-1")
    assert identity(tcp("192.0.2.1", X_Auth_Token=alice)) == RequestContext(
        project_id="red", user="alice", roles=frozenset({"member"})
    )
    with pytest.raises(Unauthorized) as refusal:
        identity(tcp("192.0.2.1", X_Auth_Token="guess"))
    assert "unix socket, or a token in X-Auth-Token that is known here" in str(refusal.value)


def test_identity_without_project_is_refused_unless_administrator():
    identity = Methods([lambda _: ClaimedIdentity(user="a", roles=frozenset({"member"}))], is_admin)
    with pytest.raises(Unauthorized, match="no project"):
        identity({})


@pytest.mark.spec("API-10")
def test_tcp_with_noauth_alone_is_refused_at_start_unless_asked_for():
    validate_listeners(conf(), [])
    validate_listeners(conf(noauth_on_loopback=True), ["127.0.0.1:9696"])
    validate_listeners(conf(methods=["tokens"]), ["0.0.0.0:9696"])
    with pytest.raises(ConfigError, match="makes every user of this machine an administrator"):
        validate_listeners(conf(), ["127.0.0.1:9696"])


def test_address_that_refuses_all_remote_clients_is_logged(caplog):
    here = ["127.0.0.1:9696", "[::1]:9696"]
    validate_listeners(conf(noauth_on_loopback=True), here)
    validate_listeners(conf(noauth_allow_remote_admin=True), ["0.0.0.0:9696"])
    assert not caplog.records
    validate_listeners(conf(noauth_on_loopback=True), [*here, "0.0.0.0:9696", "[::]:9696"])
    assert caplog.messages[0].startswith("0.0.0.0:9696, [::]:9696 can be reached from other hosts")


@pytest.mark.parametrize(
    "values",
    [
        {"methods": ["proxy"]},
        {"methods": []},
        {"methods": ["noauth", "noauth"]},
        {"methods": ["proxy"], "trusted_proxies": ["192.0.2.1/24"]},
        {"noauth_admin_users": ["nobody-of-that-name"]},
        {"noauth_admin_groups": ["nobody-of-that-name"]},
        {"methods": ["tokens"], "token_file": "/nonexistent/tokens"},
    ],
)
def test_options_that_cannot_work_are_refused_at_start(values):
    with pytest.raises(ConfigError):
        make_methods(conf(**values), is_admin)


def test_a_token_file_that_cannot_be_used_is_named_with_its_option(token_file):
    values = {"methods": ["tokens"], "token_file": str(token_file)}
    token_file.chmod(0o644)
    with pytest.raises(ConfigError, match=rf"^\[identity\] token_file: {token_file}: every user"):
        make_methods(conf(**values), is_admin)
    token_file.unlink()
    with pytest.raises(ConfigError) as refusal:
        make_methods(conf(**values), is_admin)
    assert str(refusal.value) == (
        f"[identity] token_file: {token_file}: there is no such file; "
        f"`netfw token USER --project PROJECT --file {token_file}` creates it"
    )


def test_the_command_makes_a_token_that_the_file_knows(token_file, capsys):
    token_file.write_text("# made by hand")
    asked = ["token", "alice", "--project", "red", "--role", "Member", "--until", "2999-01-31"]
    assert main([*asked, "--file", str(token_file)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    identity = Tokens(str(token_file))(tcp("192.0.2.1", X_Auth_Token=captured.out.strip()))
    assert identity == ClaimedIdentity(project_id="red", user="alice", roles=frozenset({"member"}))
    assert main(["token", "alice smith"]) == 2
    assert "spaces" in capsys.readouterr().err
