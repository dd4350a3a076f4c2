"""Options of the metadata agent."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

PROGRAM = "netfw-metadata-agent"
GROUP = "metadata"
STATE = "metadata"
"""Directory of the agent below ``state_path``; the agent need not run as root, and shares none with
those that do."""
SOCKET = f"$state_path/{STATE}/proxy"
"""Default of the socket, for the agent and for proxies."""
PROXY_USERS = ("haproxy", "nobody")
"""Users that proxies run as by default: the first that exists."""

SERVICE = (
    cfg.StrOpt(
        "nova_metadata_host",
        default="127.0.0.1",
        mutable=True,
        help="The metadata service: its name or address.",
    ),
    cfg.PortOpt("nova_metadata_port", default=8775, mutable=True, help="The service's port."),
    cfg.StrOpt(
        "nova_metadata_protocol",
        default="http",
        choices=[("http", "without TLS"), ("https", "with TLS")],
        mutable=True,
        help="Whether the service uses TLS.",
    ),
    cfg.BoolOpt(
        "nova_metadata_insecure",
        default=False,
        mutable=True,
        help="Do not verify the certificate of the service.  An attacker between the agent and the "
        "service can then read the passwords and keys of instances.",
    ),
    cfg.StrOpt(
        "auth_ca_cert",
        default="",
        mutable=True,
        help="File with certificates of the authorities that the service's certificate is of.  "
        "Empty: those that this machine trusts.",
    ),
    cfg.StrOpt(
        "nova_client_cert",
        default="",
        mutable=True,
        help="File with the agent's own certificate, for a service that requires one.",
    ),
    cfg.StrOpt(
        "nova_client_priv_key",
        default="",
        mutable=True,
        help="File with the key of nova_client_cert.  Empty: it is in the same file.",
    ),
    cfg.StrOpt(
        "metadata_proxy_shared_secret",
        default="",
        secret=True,
        mutable=True,
        help="Signs the ids of instances (HMAC-SHA256); the service has the same secret.  With an "
        "empty one, any client that reaches the service can impersonate any instance.",
    ),
    cfg.FloatOpt(
        "nova_metadata_timeout",
        default=50.0,
        min=0.1,
        mutable=True,
        help="Seconds that the service may take for an answer, all in all; beyond them, instances "
        "get 504.  Proxies should wait a little longer (metadata_proxy_answer_timeout).",
    ),
)

SERVING = (
    cfg.StrOpt(
        "metadata_proxy_socket",
        default=SOCKET,
        help="The unix socket at which the host's metadata proxies reach the agent; the metadata "
        "driver of the DHCP and L3 agents has an option of the same name.",
    ),
    cfg.StrOpt(
        "metadata_proxy_socket_mode",
        default="deduce",
        help="Permissions to connect to it: user (0644: the agent's own user, and root), group "
        "(0664), all (0666), an octal number, or deduce: what metadata_proxy_user and "
        "metadata_proxy_group need.  With deduce, requests of other users than root, the agent's "
        "own and metadata_proxy_user are refused (403), whatever the mode; any other value admits "
        "all who may write to the socket.",
    ),
    cfg.StrOpt(
        "metadata_proxy_user",
        default="",
        help="The user that proxies run as, by name or number, for deduce; the same as in the "
        "options of their driver.  Empty: haproxy, or nobody where there is no such user.",
    ),
    cfg.StrOpt(
        "metadata_proxy_group",
        default="",
        help="The group that proxies run as, by name or number, for deduce.  Empty: the first "
        "group of metadata_proxy_user.",
    ),
    cfg.IntOpt(
        "metadata_workers",
        default=32,
        min=1,
        max=1000,
        help="Requests that are forwarded at the same time.  Each has a thread, of one process: a "
        "thread mostly waits for the service, so there may be many more than cores.  One instance "
        "gets half of them at most.",
    ),
    cfg.IntOpt(
        "metadata_backlog",
        default=4096,
        min=1,
        help="Requests that wait for a worker; beyond them, instances get 503 at once.",
    ),
    cfg.FloatOpt(
        "metadata_cache_seconds",
        default=5.0,
        min=0.0,
        max=300.0,
        mutable=True,
        help="Seconds for which the agent caches which instance has an address.  An address "
        "that goes to another instance may get the former one's metadata for as long.  0: the "
        "source is queried each time.",
    ),
    cfg.FloatOpt(
        "metadata_cache_negative_seconds",
        default=1.0,
        min=0.0,
        max=300.0,
        mutable=True,
        help="Seconds for which it caches that no instance has it, or that the lookup failed.",
    ),
    cfg.IntOpt(
        "metadata_cache_size",
        default=20_000,
        min=1,
        mutable=True,
        help="Addresses that it caches at most, each in some 2 KB.",
    ),
    cfg.StrOpt(
        "liveness_file",
        sample_default="STATE_PATH/metadata/PROGRAM.alive",
        help="File that receives the current time, from a worker that answered a request, so that "
        "a monitor can detect an agent that hangs.",
    ),
    cfg.FloatOpt(
        "liveness_interval",
        default=10.0,
        min=0.0,
        mutable=True,
        help="Seconds between two such writes.  0: never.",
    ),
)


OWN = (*SERVICE, *SERVING)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the agent's own group, without those of all agents, for the sample generator."""
    return [(GROUP, OWN)]
