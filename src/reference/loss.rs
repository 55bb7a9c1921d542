//! Policy losses in f64, formula by formula: what `crate::loss` is tested against, and what people compare a trainer with.

use crate::loss::{
    Advantages, Floats, Kl, Layout, LossMetrics, NonFinite, PolicyBatch, PolicyLossConfig,
    RatioLevel, Reduction, RolloutCorrection, RolloutLevel, Surrogate,
};

/// Everything that a policy loss gives, in f64. `*_grad` and `token_loss` are of the length of `log_prob`.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceLoss {
    /// Sum of `rows`.
    pub numerator: f64,
    /// What divides it.
    pub denominator: f64,
    /// `w_i · sum_t m·l` of each row.
    pub rows: Vec<f64>,
    /// Each token's share of the loss.
    pub token_loss: Vec<f64>,
    /// Gradient of the loss by the log-probs.
    pub grad_log_prob: Vec<f64>,
    /// Gradient of the loss by the entropies.
    pub grad_entropy: Vec<f64>,
    /// Counts and sums.
    pub metrics: LossMetrics,
}

impl ReferenceLoss {
    /// `numerator / denominator`, or 0 where there is no token.
    pub fn loss(&self) -> f64 {
        if self.denominator == 0.0 { 0.0 } else { self.numerator / self.denominator }
    }
}

/// The inputs as f64.
struct Wide {
    log_prob: Vec<f64>,
    old: Vec<f64>,
    reference: Option<Vec<f64>>,
    rollout: Option<Vec<f64>>,
    entropy: Option<Vec<f64>>,
    advantage: Vec<f64>,
}

impl Wide {
    fn new(batch: &PolicyBatch<'_>) -> Self {
        let wide = |values: Floats<'_>| -> Vec<f64> {
            (0..values.len()).map(|i| values.get(i).into()).collect()
        };
        let log_prob = wide(batch.log_prob);
        Wide {
            old: batch.old.map_or_else(|| log_prob.clone(), wide),
            log_prob,
            reference: batch.reference.map(wide),
            rollout: batch.rollout.map(wide),
            entropy: batch.entropy.map(wide),
            advantage: advantages(batch),
        }
    }

    fn given_is_finite(&self, t: usize) -> bool {
        let finite =
            |values: &Option<Vec<f64>>| values.as_ref().is_none_or(|values| values[t].is_finite());
        self.log_prob[t].is_finite()
            && self.old[t].is_finite()
            && self.advantage[t].is_finite()
            && finite(&self.reference)
            && finite(&self.entropy)
            && self.rollout.as_ref().is_none_or(|rollout| !rollout[t].is_infinite())
    }
}

/// Advantage of every token. Sums are those of f32, as the method defines them.
fn advantages(batch: &PolicyBatch<'_>) -> Vec<f64> {
    let mut advantage = vec![0.0; batch.log_prob.len()];
    for row in 0..n_rows(batch.layout) {
        for (i, t) in tokens(batch.layout, row).enumerate() {
            advantage[t] = f64::from(match batch.advantages {
                Advantages::Dense(values) => values.get(t),
                Advantages::Rows(values) => values[row],
                Advantages::Spans { episode, spans, offsets } => {
                    let mut a = episode[row];
                    for span in &spans[offsets[row]..offsets[row + 1]] {
                        if (span.tokens.start as usize..span.tokens.end as usize).contains(&i) {
                            a += span.advantage;
                        }
                    }
                    a
                }
            });
        }
    }
    advantage
}

fn n_rows(layout: Layout<'_>) -> usize {
    match layout {
        Layout::Padded { n_rows, .. } => n_rows,
        Layout::Packed { offsets } => offsets.len().saturating_sub(1),
    }
}

fn tokens(layout: Layout<'_>, row: usize) -> std::ops::Range<usize> {
    match layout {
        Layout::Padded { n_columns, .. } => row * n_columns..(row + 1) * n_columns,
        Layout::Packed { offsets } => offsets[row]..offsets[row + 1],
    }
}

/// A number with its derivative by the token's own log-prob and by the log-ratio that the surrogate uses.
struct Term {
    value: f64,
    by_ratio: f64,
    direct: f64,
    clipped: Clipped,
}

#[derive(PartialEq)]
enum Clipped {
    No,
    Low,
    High,
    Dual,
}

fn surrogate(surrogate: Surrogate, ratio: f64, log_prob: f64, a: f64) -> Term {
    match surrogate {
        Surrogate::Clip { low, high, dual } => {
            let held = ratio.clamp(1.0 - low, 1.0 + high);
            let inside = ratio * a <= held * a;
            let value = -(ratio * a).min(held * a);
            if let Some(c) = dual
                && a < 0.0
                && value > -c * a
            {
                return Term { value: -c * a, by_ratio: 0.0, direct: 0.0, clipped: Clipped::Dual };
            }
            let clipped = match inside {
                true => Clipped::No,
                false if a < 0.0 => Clipped::Low,
                false => Clipped::High,
            };
            Term { value, by_ratio: if inside { -ratio * a } else { 0.0 }, direct: 0.0, clipped }
        }
        Surrogate::Cispo { min, max } => {
            let weight = ratio.clamp(min, max);
            let clipped = match ratio {
                _ if ratio < min => Clipped::Low,
                _ if ratio > max => Clipped::High,
                _ => Clipped::No,
            };
            Term { value: -weight * a * log_prob, by_ratio: 0.0, direct: -weight * a, clipped }
        }
        Surrogate::Sapo { tau_positive, tau_negative } => {
            let tau = if a > 0.0 { tau_positive } else { tau_negative };
            let gate = 1.0 / (1.0 + (-tau * (ratio - 1.0)).exp());
            Term {
                value: -a * 4.0 / tau * gate,
                by_ratio: -a * 4.0 * gate * (1.0 - gate) * ratio,
                direct: 0.0,
                clipped: Clipped::No,
            }
        }
    }
}

/// The estimate and its gradient by the log-prob.
fn kl(kind: Kl, log_prob: f64, reference: f64, ratio: f64) -> (f64, f64) {
    let d = reference - log_prob;
    let held = d.min(20.0);
    let k3 = held.exp_m1() - held;
    match kind {
        Kl::K1 => (-d, 1.0),
        Kl::K2 => (d * d / 2.0, -d),
        Kl::K3 => (k3, -held.exp_m1()),
        Kl::K1StraightThrough => (-d, -d),
        Kl::K3StraightThrough => (k3, -d),
        Kl::K3Corrected => (ratio * k3, -ratio * held),
    }
}

/// The weight that multiplies a token's surrogate, and whether it was bound.
fn corrected(correction: RolloutCorrection, rho: f64) -> (f64, bool) {
    match correction {
        RolloutCorrection::None => (1.0, false),
        RolloutCorrection::Truncate { max, .. } => (rho.min(max), rho > max),
        RolloutCorrection::Mask { min, max, .. } if rho < min || rho > max => (0.0, true),
        RolloutCorrection::Mask { .. } => (rho, false),
    }
}

fn row_weight(reduction: Reduction, n_tokens: usize) -> f64 {
    match reduction {
        _ if n_tokens == 0 => 0.0,
        Reduction::TokenMean | Reduction::TokenSum | Reduction::SeqMeanTokenSum => 1.0,
        Reduction::SeqMeanTokenMean => 1.0 / n_tokens as f64,
        Reduction::SeqMeanTokenSumNorm { length } => 1.0 / f64::from(length),
    }
}

fn denominator(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> f64 {
    if let Some(given) = batch.denominator {
        return given;
    }
    let live = |row: usize| tokens(batch.layout, row).filter(|&t| batch.mask[t]).count();
    let rows = 0..n_rows(batch.layout);
    match config.reduction {
        Reduction::TokenMean => rows.map(live).sum::<usize>() as f64,
        Reduction::TokenSum => 1.0,
        _ => rows.filter(|&row| config.count_empty_rows || live(row) > 0).count() as f64,
    }
}

/// Loss, gradients and metrics of a batch that has been validated.
pub fn policy_loss(batch: &PolicyBatch<'_>, config: &PolicyLossConfig) -> ReferenceLoss {
    let wide = Wide::new(batch);
    let n = batch.log_prob.len();
    let n_rows = n_rows(batch.layout);
    let denominator = denominator(batch, config);
    let mut result = ReferenceLoss {
        numerator: 0.0,
        denominator,
        rows: vec![0.0; n_rows],
        token_loss: vec![0.0; n],
        grad_log_prob: vec![0.0; n],
        grad_entropy: vec![0.0; n],
        metrics: LossMetrics { n_rows, ..LossMetrics::default() },
    };
    for row in 0..n_rows {
        add_row(batch, config, &wide, row, &mut result);
    }
    result.numerator = result.rows.iter().sum();
    result
}

fn add_row(
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    wide: &Wide,
    row: usize,
    result: &mut ReferenceLoss,
) {
    let live: Vec<usize> = tokens(batch.layout, row).filter(|&t| batch.mask[t]).collect();
    let good: Vec<usize> = live.iter().copied().filter(|&t| wide.given_is_finite(t)).collect();
    let metrics = &mut result.metrics;
    metrics.n_tokens += live.len();
    metrics.n_non_finite += live.len() - good.len();
    metrics.n_empty_rows += usize::from(live.is_empty());
    let weight = row_weight(config.reduction, live.len());
    let share = if result.denominator == 0.0 { 0.0 } else { weight / result.denominator };
    let most = config.max_log_ratio;
    let hold = |x: f64| x.clamp(-most, most);

    let difference = |t: usize| wide.log_prob[t] - wide.old[t];
    let n_good = good.len().max(1) as f64;
    let row_log_ratio = hold(good.iter().map(|&t| difference(t)).sum::<f64>() / n_good);
    let log_rho = |t: usize| match &wide.rollout {
        Some(rollout) if !rollout[t].is_nan() => wide.old[t] - rollout[t],
        _ => 0.0,
    };
    let row_log_rho = good.iter().map(|&t| log_rho(t)).sum::<f64>();
    let rho_of_row = matches!(
        config.rollout,
        RolloutCorrection::Truncate { level: RolloutLevel::Sequence, .. }
            | RolloutCorrection::Mask { level: RolloutLevel::Sequence, .. }
    );

    let mut by_row_ratio = 0.0;
    for &t in &good {
        let own_ratio = hold(difference(t)).exp();
        let ratio = if config.ratio == RatioLevel::Token { own_ratio } else { row_log_ratio.exp() };
        let term = surrogate(config.surrogate, ratio, wide.log_prob[t], wide.advantage[t]);
        let rho = hold(if rho_of_row { row_log_rho } else { log_rho(t) }).exp();
        let (rho_used, is_bound) = corrected(config.rollout, rho);
        let (estimate, estimate_grad) = match &wide.reference {
            Some(reference) => kl(config.kl, wide.log_prob[t], reference[t], own_ratio),
            None => (0.0, 0.0),
        };
        let entropy = wide.entropy.as_ref().map_or(0.0, |entropy| entropy[t]);
        let value = rho_used * term.value + config.beta * estimate - config.entropy_coef * entropy;
        result.rows[row] += weight * value;
        result.token_loss[t] = share * value;
        result.grad_entropy[t] = -share * config.entropy_coef;
        result.grad_log_prob[t] = share * (rho_used * term.direct + config.beta * estimate_grad);
        let by_ratio = share * rho_used * term.by_ratio;
        if config.ratio == RatioLevel::Sequence {
            by_row_ratio += by_ratio / n_good;
        } else {
            result.grad_log_prob[t] += by_ratio;
        }

        let metrics = &mut result.metrics;
        metrics.n_clipped_low += usize::from(term.clipped == Clipped::Low);
        metrics.n_clipped_high += usize::from(term.clipped == Clipped::High);
        metrics.n_clipped_dual += usize::from(term.clipped == Clipped::Dual);
        metrics.sum_k1 -= difference(t);
        metrics.sum_k3 += hold(difference(t)).exp_m1() - hold(difference(t));
        metrics.sum_ratio += ratio;
        metrics.ratio_min = metrics.ratio_min.min(ratio);
        metrics.ratio_max = metrics.ratio_max.max(ratio);
        metrics.sum_kl += estimate;
        metrics.sum_entropy += entropy;
        if let Some(rollout) = &wide.rollout {
            metrics.n_weights += 1;
            metrics.sum_weight += rho;
            metrics.sum_weight_squared += rho * rho;
            metrics.weight_min = metrics.weight_min.min(rho);
            metrics.weight_max = metrics.weight_max.max(rho);
            metrics.n_weights_bound += usize::from(is_bound);
            metrics.n_unscored += usize::from(rollout[t].is_nan());
        }
    }
    for &t in &good {
        result.grad_log_prob[t] += by_row_ratio;
    }
    if config.non_finite == NonFinite::Poison && good.len() < live.len() {
        result.rows[row] = f64::NAN;
        let of_row = config.ratio != RatioLevel::Token;
        for &t in &live {
            if of_row || !good.contains(&t) {
                result.grad_log_prob[t] = f64::NAN;
            }
            if !good.contains(&t) {
                result.token_loss[t] = f64::NAN;
                if wide.entropy.is_some() {
                    result.grad_entropy[t] = f64::NAN;
                }
            }
        }
    }
}

/// The loss as a function of the log-probs alone, for finite differences: whatever stands under a stop-gradient is
/// taken at `stop`, the log-probs at which the gradient is wanted. All values are finite; `log_prob == stop` gives
/// [`policy_loss`]'s loss.
///
/// Where the value and the gradient of an estimate are defined apart (straight-through KL, GSPO-token, held exponents),
/// the function has the gradient and, at `stop`, the value.
pub fn loss_at(
    batch: &PolicyBatch<'_>,
    config: &PolicyLossConfig,
    log_prob: &[f64],
    stop: &[f64],
) -> f64 {
    let wide = Wide::new(batch);
    let denominator = denominator(batch, config);
    if denominator == 0.0 {
        return 0.0;
    }
    let old = if batch.old.is_some() { &wide.old } else { stop };
    // exp(x) where x is within the bound; beyond it the value there with its slope.
    let held_exp = |x: f64, at: f64, most: f64| {
        let bound = at.clamp(-most, most);
        if at == bound { x.exp() } else { bound.exp() * (1.0 + x - at) }
    };
    let most = config.max_log_ratio;
    let mut loss = 0.0;
    for row in 0..n_rows(batch.layout) {
        let live: Vec<usize> = tokens(batch.layout, row).filter(|&t| batch.mask[t]).collect();
        if live.is_empty() {
            continue;
        }
        let mean =
            |of: &[f64]| live.iter().map(|&t| of[t] - old[t]).sum::<f64>() / live.len() as f64;
        let (row_u, row_u_stop) = (mean(log_prob), mean(stop));
        let log_rho = |t: usize| match &wide.rollout {
            Some(rollout) if !rollout[t].is_nan() => old[t] - rollout[t],
            _ => 0.0,
        };
        let row_log_rho = live.iter().map(|&t| log_rho(t)).sum::<f64>();
        let mut sum = 0.0;
        for &t in &live {
            let own = held_exp(log_prob[t] - old[t], stop[t] - old[t], most);
            let ratio = match config.ratio {
                RatioLevel::Token => own,
                RatioLevel::Sequence => held_exp(row_u, row_u_stop, most),
                // s · pi / stop(pi): the slope of the token's own log-prob.
                RatioLevel::SequenceToken => {
                    row_u_stop.clamp(-most, most).exp() * (log_prob[t] - stop[t]).exp()
                }
            };
            let a = wide.advantage[t];
            let surrogate = match config.surrogate {
                Surrogate::Clip { low, high, dual } => {
                    let value = -(ratio * a).min(ratio.clamp(1.0 - low, 1.0 + high) * a);
                    if a < 0.0 { value.min(dual.map_or(f64::INFINITY, |c| -c * a)) } else { value }
                }
                Surrogate::Cispo { min, max } => {
                    let at = match config.ratio {
                        RatioLevel::Token => (stop[t] - old[t]).clamp(-most, most),
                        _ => row_u_stop.clamp(-most, most),
                    };
                    -at.exp().clamp(min, max) * a * log_prob[t]
                }
                Surrogate::Sapo { tau_positive, tau_negative } => {
                    let tau = if a > 0.0 { tau_positive } else { tau_negative };
                    -a * 4.0 / tau / (1.0 + (-tau * (ratio - 1.0)).exp())
                }
            };
            let rho = match config.rollout {
                RolloutCorrection::Truncate { level: RolloutLevel::Sequence, .. }
                | RolloutCorrection::Mask { level: RolloutLevel::Sequence, .. } => row_log_rho,
                _ => log_rho(t),
            };
            let (rho, _) = corrected(config.rollout, rho.clamp(-most, most).exp());
            sum += rho * surrogate;
            if let Some(reference) = &wide.reference {
                let (d, d_stop) = (reference[t] - log_prob[t], reference[t] - stop[t]);
                let k2 = d * d / 2.0 - d_stop * d_stop / 2.0;
                let k3 = |x: f64, at: f64| {
                    if at > 20.0 {
                        20f64.exp() * (1.0 + x - at) - 21.0 - (x - at)
                    } else {
                        x.exp_m1() - x
                    }
                };
                sum += config.beta
                    * match config.kl {
                        Kl::K1 => -d,
                        Kl::K2 => d * d / 2.0,
                        Kl::K3 => k3(d, d_stop),
                        Kl::K1StraightThrough => -d_stop + k2,
                        Kl::K3StraightThrough => k3(d_stop, d_stop) + k2,
                        Kl::K3Corrected => own * k3(d, d_stop),
                    };
            }
            if let Some(entropy) = &wide.entropy {
                sum -= config.entropy_coef * entropy[t];
            }
        }
        loss += row_weight(config.reduction, live.len()) * sum;
    }
    loss / denominator
}
