"""Entry points for the tools of oslo.policy, such as ``oslopolicy-sample-generator``."""

from __future__ import annotations

from oslo_config import cfg
from oslo_policy import opts
from oslo_policy.policy import Enforcer, RuleDefault

from netfw.conf.identity import POLICY, POLICY_GROUP
from netfw.server.api.policy.rules import declared_rules, defaults
from netfw.server.api.resource_registry import build
from netfw.server.api.resources import RESOURCES


def list_rules() -> list[RuleDefault]:
    """Return the declared rules; entry point of ``oslo.policy.policies``."""
    registry = build([*(each.name for each in RESOURCES), "quota"])
    return defaults(declared_rules(registry.resources))


def get_enforcer() -> Enforcer:
    """Return an enforcer of ``[policy] file``; entry point of ``oslo.policy.enforcer``.

    The tools parse their command line, with ``--config-file``, into the global configuration.
    """
    conf = cfg.CONF
    conf.register_opts(POLICY, POLICY_GROUP)
    opts.set_defaults(conf, policy_file=conf.policy.file)
    enforcer = Enforcer(conf)
    enforcer.register_defaults(list_rules())
    return enforcer
