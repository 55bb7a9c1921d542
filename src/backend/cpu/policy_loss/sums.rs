//! Sums over tokens. Each lane is summed by itself: in f32 over a block, in f64 over a piece; the lanes are joined in
//! order at the end of a piece, whatever the instructions.

use super::super::vectorized::{Lanes, Probe, WIDTH};
use super::block::{Inputs, Lane};
use super::terms::Terms;
use crate::params::metrics::LossMetrics;

/// Sums in f64, a lane each.
type Wide = [f64; WIDTH];

/// Sums over a block: at most 32 f32 to a lane.
pub(super) struct Sums<V> {
    value: V,
    grad: V,
    log_ratio: V,
    k3: V,
    ratio: V,
    kl: V,
    entropy: V,
    weight: V,
    weight_squared: V,
}

impl<V: Lanes> Sums<V> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let zero = V::splat(0.0);
        Sums {
            value: zero,
            grad: zero,
            log_ratio: zero,
            k3: zero,
            ratio: zero,
            kl: zero,
            entropy: zero,
            weight: zero,
            weight_squared: zero,
        }
    }

    #[inline(always)]
    pub(super) fn add<const REFERENCE: bool>(&mut self, terms: &Terms<V>, has_entropy: bool) {
        let good = terms.good;
        self.value = self.value + terms.value;
        self.grad = self.grad + terms.grad;
        self.log_ratio = self.log_ratio.add_where(good, terms.difference);
        self.k3 = self.k3.add_where(good, terms.k3);
        self.ratio = self.ratio.add_where(good, terms.ratio);
        if REFERENCE {
            self.kl = self.kl.add_where(good, terms.kl);
        }
        if has_entropy {
            self.entropy = self.entropy.add_where(good, terms.entropy);
        }
        if let Some(weight) = &terms.weight {
            self.weight = self.weight.add_where(good, weight.rho);
            self.weight_squared = self.weight_squared.add_where(good, weight.rho * weight.rho);
        }
    }
}

/// Sums over a piece, and what is counted in it: at most 256 to a lane.
pub(super) struct Totals<V> {
    value: Wide,
    grad: Wide,
    log_ratio: Wide,
    k3: Wide,
    ratio: Wide,
    kl: Wide,
    entropy: Wide,
    weight: Wide,
    weight_squared: Wide,
    ratio_bounds: Bounds<V>,
    weight_bounds: Bounds<V>,
    n_low: V,
    n_high: V,
    n_dual: V,
    n_non_finite: V,
    n_bound: V,
    n_unscored: V,
}

impl<V: Lanes> Totals<V> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let (zero, wide) = (V::splat(0.0), [0.0; WIDTH]);
        Totals {
            value: wide,
            grad: wide,
            log_ratio: wide,
            k3: wide,
            ratio: wide,
            kl: wide,
            entropy: wide,
            weight: wide,
            weight_squared: wide,
            ratio_bounds: Bounds::new(),
            weight_bounds: Bounds::new(),
            n_low: zero,
            n_high: zero,
            n_dual: zero,
            n_non_finite: zero,
            n_bound: zero,
            n_unscored: zero,
        }
    }

    /// Counts sixteen tokens.
    #[inline(always)]
    pub(super) fn count(&mut self, terms: &Terms<V>) {
        let Terms { live, good, surrogate, .. } = terms;
        let one = V::splat(1.0);
        self.ratio_bounds.add(terms.ratio, *good);
        self.n_low = self.n_low.add_where(*good & surrogate.clipped_low, one);
        self.n_high = self.n_high.add_where(*good & surrogate.clipped_high, one);
        self.n_dual = self.n_dual.add_where(*good & surrogate.clipped_dual, one);
        self.n_non_finite = self.n_non_finite.add_where(*live & !*good, one);
        if let Some(weight) = &terms.weight {
            self.weight_bounds.add(weight.rho, *good);
            self.n_bound = self.n_bound.add_where(*good & weight.is_bound, one);
            self.n_unscored = self.n_unscored.add_where(*good & weight.is_unscored, one);
        }
    }

    /// Adds the sums of a block.
    #[inline(always)]
    pub(super) fn add(&mut self, sums: &Sums<V>) {
        sums.value.add_to(&mut self.value);
        sums.grad.add_to(&mut self.grad);
        sums.log_ratio.add_to(&mut self.log_ratio);
        sums.k3.add_to(&mut self.k3);
        sums.ratio.add_to(&mut self.ratio);
        sums.kl.add_to(&mut self.kl);
        sums.entropy.add_to(&mut self.entropy);
        sums.weight.add_to(&mut self.weight);
        sums.weight_squared.add_to(&mut self.weight_squared);
    }

    #[inline(always)]
    pub(super) fn value(&self) -> f64 {
        total(&self.value)
    }

    #[inline(always)]
    pub(super) fn grad(&self) -> f64 {
        total(&self.grad)
    }

    #[inline(always)]
    pub(super) fn metrics(&self) -> LossMetrics {
        let (ratio_min, ratio_max) = self.ratio_bounds.get();
        let (weight_min, weight_max) = self.weight_bounds.get();
        LossMetrics {
            n_clipped_low: count(self.n_low),
            n_clipped_high: count(self.n_high),
            n_clipped_dual: count(self.n_dual),
            n_non_finite: count(self.n_non_finite),
            n_weights_bound: count(self.n_bound),
            n_unscored: count(self.n_unscored),
            sum_k1: -total(&self.log_ratio),
            sum_k3: total(&self.k3),
            sum_ratio: total(&self.ratio),
            ratio_min,
            ratio_max,
            sum_kl: total(&self.kl),
            sum_entropy: total(&self.entropy),
            sum_weight: total(&self.weight),
            sum_weight_squared: total(&self.weight_squared),
            weight_min,
            weight_max,
            ..LossMetrics::default()
        }
    }
}

/// Least and largest of what counts.
struct Bounds<V> {
    min: V,
    max: V,
}

impl<V: Lanes> Bounds<V> {
    #[inline(always)]
    fn new() -> Self {
        Bounds { min: V::splat(f32::INFINITY), max: V::splat(f32::NEG_INFINITY) }
    }

    #[inline(always)]
    fn add(&mut self, x: V, counts: V::Mask) {
        self.min = V::select(counts, x.min(self.min), self.min);
        self.max = V::select(counts, x.max(self.max), self.max);
    }

    #[inline(always)]
    fn get(&self) -> (f64, f64) {
        let min = self.min.to_array().into_iter().fold(f32::INFINITY, f32::min);
        let max = self.max.to_array().into_iter().fold(f32::NEG_INFINITY, f32::max);
        (f64::from(min), f64::from(max))
    }
}

/// Sums over the tokens of a piece or a row from which the row's ratio and weight are made.
#[derive(Clone, Copy, Default)]
pub(super) struct RowLogs {
    pub(super) n_finite: usize,
    pub(super) log_ratio: f64,
    pub(super) log_weight: f64,
}

/// [`RowLogs`] of a piece, by lanes.
pub(super) struct RowLogTotals<V> {
    log_ratio: Wide,
    log_weight: Wide,
    n_finite: V,
}

impl<V: Lanes> RowLogTotals<V> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        let wide = [0.0; WIDTH];
        RowLogTotals { log_ratio: wide, log_weight: wide, n_finite: V::splat(0.0) }
    }

    /// Adds a block.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        inputs: &Inputs<'_>,
        reference: bool,
        rollout: bool,
        entropy: bool,
    ) {
        let zero = V::splat(0.0);
        let (mut log_ratio, mut log_weight) = (zero, zero);
        for i in 0..inputs.len.div_ceil(WIDTH) {
            let read = |values: &Lane| V::load(&values.as_chunks::<WIDTH>().0[i]);
            let live = V::mask(&inputs.mask.as_chunks::<WIDTH>().0[i]);
            let (log_prob, old) = (read(inputs.log_prob), read(inputs.old));
            let mut probe = Probe::new().with(log_prob).with(old).with(read(inputs.advantage));
            if reference {
                probe = probe.with(read(inputs.reference));
            }
            if entropy {
                probe = probe.with(read(inputs.entropy));
            }
            let mut log = zero;
            if rollout {
                let rollout = read(inputs.rollout);
                let rollout = V::select(rollout.is_nan(), old, rollout);
                log = old - rollout;
                probe = probe.with(rollout);
            }
            let given = live & probe.all_finite();
            self.n_finite = self.n_finite.add_where(given, V::splat(1.0));
            log_ratio = log_ratio.add_where(given, log_prob - old);
            log_weight = log_weight.add_where(given, log);
        }
        log_ratio.add_to(&mut self.log_ratio);
        log_weight.add_to(&mut self.log_weight);
    }

    #[inline(always)]
    pub(super) fn get(&self) -> RowLogs {
        RowLogs {
            n_finite: count(self.n_finite),
            log_ratio: total(&self.log_ratio),
            log_weight: total(&self.log_weight),
        }
    }
}

/// Sum of the lanes, in order.
#[inline(always)]
fn total(lanes: &Wide) -> f64 {
    lanes.iter().sum()
}

/// Sum of the lanes, which are whole numbers.
#[inline(always)]
fn count<V: Lanes>(lanes: V) -> usize {
    let mut wide = [0.0; WIDTH];
    lanes.add_to(&mut wide);
    total(&wide) as usize
}
