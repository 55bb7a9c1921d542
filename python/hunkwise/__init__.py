"""Hunk-level credit assignment and policy losses for coding-agent RL.

    import hunkwise

    credit = hunkwise.credit(rollouts)              # dicts, or paths of a trainer's dumps
    advantages = credit.advantages                  # one float32 array for each rollout row
    loss = hunkwise.policy_loss(log_prob, mask, advantages, old=old, config="dapo")

Importing it starts no thread and touches no device. `hunkwise.torch` has the losses as autograd functions.
"""

from ._config import AdvantageConfig, AnchorConfig, Config, EditConfig, SimilarityConfig
from ._credit import Credit, CreditRow, Group, Member, Span, credit
from ._hunkwise import __version__
from ._losses import (
    PRESETS,
    LinearLoss,
    LogitsLoss,
    PolicyLoss,
    Spans,
    linear_loss,
    logits_loss,
    loss_config,
    policy_loss,
    reference_policy_loss,
    token_logprob,
)
from ._tokens import TokenBytes

__all__ = [
    "PRESETS",
    "AdvantageConfig",
    "AnchorConfig",
    "Config",
    "Credit",
    "CreditRow",
    "EditConfig",
    "Group",
    "LinearLoss",
    "LogitsLoss",
    "Member",
    "PolicyLoss",
    "SimilarityConfig",
    "Span",
    "Spans",
    "TokenBytes",
    "__version__",
    "credit",
    "linear_loss",
    "logits_loss",
    "loss_config",
    "policy_loss",
    "reference_policy_loss",
    "token_logprob",
]
