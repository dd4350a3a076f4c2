"""Options of authentication and policy."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg, types

GROUP = "identity"

METHODS = ("noauth", "tokens", "keystone", "proxy")

IDENTITY = (
    cfg.ListOpt(
        "methods",
        default=["noauth"],
        item_type=types.String(choices=METHODS),
        help="How requests are authenticated, tried in this order: noauth (the user of the process "
        "at the other end of the unix socket), tokens (a file of hashed tokens), keystone "
        "(keystonemiddleware, see [keystone_authtoken]), proxy (headers from a trusted proxy).",
    ),
    cfg.ListOpt(
        "noauth_admin_users",
        default=[],
        help="noauth: users, by name or number, whose processes are administrators on the unix "
        "socket; root and the user of the server always are.",
    ),
    cfg.ListOpt(
        "noauth_admin_groups",
        default=[],
        help="noauth: groups, by name or number, whose members are administrators on the unix "
        "socket.",
    ),
    cfg.StrOpt(
        "noauth_other_users",
        default="refused",
        choices=[
            ("refused", "they are not admitted"),
            ("members", "members of the project uid-NUMBER and of no other"),
        ],
        help="noauth: what other users are on the unix socket.",
    ),
    cfg.StrOpt(
        "noauth_default_project",
        default="default",
        help="noauth: the project of an administrator without X-Project-Id.",
    ),
    cfg.BoolOpt(
        "noauth_on_loopback",
        default=False,
        help="noauth: serve TCP from this machine to itself as well.  It makes every user of this "
        "machine an administrator.",
    ),
    cfg.ListOpt(
        "noauth_hosts",
        default=["localhost"],
        help="noauth: names that the Host header may have on TCP; loopback addresses always may.  "
        "Others are refused, since a web page could otherwise send requests by a browser.",
    ),
    cfg.BoolOpt(
        "noauth_allow_remote_admin",
        default=False,
        help="noauth: make every client that reaches the server by TCP, from any host, an "
        "administrator.  Only for isolated networks.",
    ),
    cfg.StrOpt(
        "token_file",
        default="/etc/netfw/tokens",
        help="tokens: the file with the hashed tokens; reloaded when it changes.",
    ),
    cfg.ListOpt(
        "trusted_proxies",
        default=[],
        help="proxy: addresses and networks whose identity headers are trusted.",
    ),
    cfg.ListOpt(
        "trusted_proxy_users",
        default=[],
        help="proxy: users, by name or number, whose processes are trusted on the unix socket.",
    ),
    cfg.IntOpt(
        "cached_tokens",
        default=1000,
        min=1,
        help="keystone: maximum number of cached tokens; their TTL is token_cache_time in "
        "[keystone_authtoken].",
    ),
)

POLICY_GROUP = "policy"

POLICY = (
    cfg.StrOpt(
        "file",
        default="/etc/netfw/policy.yaml",
        help="Rules that replace those of netfw, by name; reloaded when it changes.  The default "
        "file need not exist.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, IDENTITY), (POLICY_GROUP, POLICY)]
