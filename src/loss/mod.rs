//! Policy losses: from log-probs and advantages to the loss, its gradient and its metrics, in one pass.
//!
//! [`policy_loss`] knows the losses that trainers use; [`PolicyLossConfig`] has one constructor for each
//! ([`grpo`](PolicyLossConfig::grpo), [`dapo`](PolicyLossConfig::dapo), …) and every field may be changed from there.
//! [`policy_loss_with`] takes a loss of one's own. Arithmetic is f32 whatever the dtype of the arrays, sums are f64 in
//! a fixed order: a result has the same bits for every number of threads, and a row the same value in every batch.
//! `crate::reference::loss` is the specification, in f64.

mod contributing;
mod linear;
mod logits;
mod policy;
mod presets;
mod validate;

pub use crate::params::arrays::{
    AdvantageSpan, Advantages, Floats, FloatsMut, Layout, LinearGradients, Logits, LogitsRows,
    PolicyBatch, PolicyLoss, PolicyOutputs, Temperature, Upstream,
};
pub use crate::params::loss::{
    Kl, NonFinite, PolicyLossConfig, RatioLevel, Reduction, RolloutCorrection, RolloutLevel,
    Surrogate, TokenInput, TokenLoss, TokenTerm,
};
pub use crate::params::metrics::LossMetrics;
pub use linear::linear_loss;
pub use logits::{LogitsBatch, logits_loss, token_logprob};
pub use policy::{policy_loss, policy_loss_with};
pub use presets::PRESETS;
