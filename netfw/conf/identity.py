"""Options of identity: how the server finds out who asks."""

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
        help="How requests are identified, tried in this order: noauth (whom the kernel says is at "
        "the other end of the unix socket), tokens (a file of hashed tokens), keystone "
        "(keystonemiddleware, see [keystone_authtoken]), proxy (headers from a trusted proxy).",
    ),
    cfg.ListOpt(
        "admin_users",
        default=[],
        help="noauth: users, by name or number, whose processes are administrators on the unix "
        "socket; root and the user of the server always are.",
    ),
    cfg.ListOpt(
        "admin_groups",
        default=[],
        help="noauth: groups, by name or number, whose members are administrators on the unix "
        "socket.",
    ),
    cfg.StrOpt(
        "other_users",
        default="refused",
        choices=["refused", "members"],
        help="noauth: what other users are on the unix socket; a member has the project "
        "uid-NUMBER and no other.",
    ),
    cfg.StrOpt(
        "default_project",
        default="default",
        help="noauth: the project of an administrator who names none in X-Project-Id.",
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
        "Others are refused, or a web page could have a browser act for it.",
    ),
    cfg.BoolOpt(
        "noauth_everybody_is_admin",
        default=False,
        help="noauth: make whoever can reach the server by TCP, from anywhere, an administrator.  "
        "Only for networks that nobody else is in.",
    ),
    cfg.StrOpt(
        "token_file",
        default="/etc/netfw/tokens",
        help="tokens: the file with the hashed tokens; read again when it changes.",
    ),
    cfg.ListOpt(
        "trusted_proxies",
        default=[],
        help="proxy: addresses and networks of those whose identity headers are believed.",
    ),
    cfg.ListOpt(
        "trusted_proxy_users",
        default=[],
        help="proxy: users, by name or number, whose processes are believed on the unix socket.",
    ),
    cfg.IntOpt(
        "cached_tokens",
        default=1000,
        min=1,
        help="keystone: tokens that are remembered at most; how long says token_cache_time in "
        "[keystone_authtoken].",
    ),
)

POLICY_GROUP = "policy"

POLICY = (
    cfg.StrOpt(
        "file",
        default="/etc/netfw/policy.yaml",
        help="Rules that replace those of netfw, by name; read again when it changes.  It need not "
        "exist unless it is named here.",
    ),
)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """What the sample generator asks for: groups and their options."""
    return [(GROUP, IDENTITY), (POLICY_GROUP, POLICY)]
