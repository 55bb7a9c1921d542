//! One row of logits: its maximum and sum of exponentials, and the gradient by every logit.

use super::super::vectorized::{Lanes, Vectorized, WIDTH, exp_of_held};
use super::element::Element;

/// Logits taken at a time; they stay in the first-level cache.
const CHUNK: usize = 1024;
/// Bytes that a store should not cross.
const CACHE_LINE: usize = 64;
/// Differences to the maximum below this have probability 0: exp is below 1.7e-38.
const LEAST: f32 = -87.0;

/// What a row's softmax is made of. All NaN where the row has NaN, +inf or nothing finite.
#[derive(Debug, Clone, Copy)]
pub(super) struct Softmax {
    /// The largest logit.
    pub(super) max: f32,
    /// `log sum exp((z - max) / T)`.
    pub(super) log_sum: f64,
    /// In nats.
    pub(super) entropy: f64,
}

impl Softmax {
    pub(super) const NAN: Softmax = Softmax { max: f32::NAN, log_sum: f64::NAN, entropy: f64::NAN };
}

/// The chunk at `start`, with -inf after its end.
#[inline(always)]
fn widen<'a, E: Element>(
    row: &'a [E],
    start: usize,
    buffer: &'a mut [f32; CHUNK],
) -> &'a [[f32; WIDTH]] {
    let n = CHUNK.min(row.len() - start);
    let chunk = &row[start..start + n];
    if let Some(chunk) = E::as_wide(chunk)
        && n == CHUNK
    {
        return chunk.as_chunks::<WIDTH>().0;
    }
    E::widen(chunk, &mut buffer[..n]);
    let whole = n.next_multiple_of(WIDTH);
    buffer[n..whole].fill(f32::NEG_INFINITY);
    buffer[..whole].as_chunks::<WIDTH>().0
}

/// `exp(d)`, 0 where d is below [`LEAST`], and d held there.
#[inline(always)]
fn exp_or_zero<V: Lanes>(d: V) -> (V, V) {
    let least = V::splat(LEAST);
    let held = least.max(d);
    (exp_of_held(held).keep(!d.less(least)), held)
}

/// Reads a row once.
pub(super) struct Read<'a, E> {
    pub(super) row: &'a [E],
    pub(super) temperature: f32,
}

impl<E: Element> Vectorized for Read<'_, E> {
    type Output = Softmax;

    #[inline(always)]
    fn run<V: Lanes>(self) -> Softmax {
        let inverse = V::splat(1.0 / self.temperature);
        let mut buffer = [0.0; CHUNK];
        let mut max = f32::NEG_INFINITY;
        // Sums of exp((z - max) / T), and of that times (z - max) / T.
        let (mut sum, mut weighted) = (0f64, 0f64);
        for start in (0..self.row.len()).step_by(CHUNK) {
            let chunk = widen(self.row, start, &mut buffer);
            // NaN is never the largest; it makes the sums NaN.
            let mut largest = V::splat(f32::NEG_INFINITY);
            for z in chunk {
                largest = V::load(z).max(largest);
            }
            let largest = largest.to_array().into_iter().fold(f32::NEG_INFINITY, f32::max);
            if largest == f32::NEG_INFINITY {
                if chunk.as_flattened().iter().any(|z| z.is_nan()) {
                    return Softmax::NAN;
                }
                continue;
            }
            if largest > max {
                let d = f64::from(max - largest) / f64::from(self.temperature);
                let scale = d.exp();
                // What was summed so far gets d added to its exponents.
                weighted = if sum == 0.0 { 0.0 } else { scale * (weighted + d * sum) };
                sum *= scale;
                max = largest;
            }
            let (mut sums, mut weights) = (V::splat(0.0), V::splat(0.0));
            for z in chunk {
                let (e, d) = exp_or_zero((V::load(z) - V::splat(max)) * inverse);
                sums = sums + e;
                weights = e.mul_add(d, weights);
            }
            sum += sums.to_array().into_iter().map(f64::from).sum::<f64>();
            weighted += weights.to_array().into_iter().map(f64::from).sum::<f64>();
        }
        if sum.is_nan() || sum == 0.0 {
            return Softmax::NAN;
        }
        Softmax { max, log_sum: sum.ln(), entropy: sum.ln() - weighted / sum }
    }
}

/// Makes `grad` the gradient by the logits that `row` has; the target's is written by the caller.
pub(super) struct Write<'a, E> {
    /// The logits; `None` for those that stand in `grad`.
    pub(super) row: Option<&'a [E]>,
    pub(super) grad: &'a mut [E],
    pub(super) softmax: Softmax,
    pub(super) temperature: f32,
    /// Gradient by the target's log-prob.
    pub(super) by_log_prob: f32,
    /// Gradient by the entropy.
    pub(super) by_entropy: f32,
}

/// `p · (constant + slope · d)` of logits, where p is `exp(d) · inverse_sum` and d is `(z - max) · inverse`.
#[derive(Clone, Copy)]
struct Gradient<V> {
    max: V,
    inverse: V,
    inverse_sum: V,
    constant: V,
    slope: V,
}

impl<V: Lanes> Gradient<V> {
    /// Writes the gradient over the logits.
    #[inline(always)]
    fn write(self, chunk: &mut [[f32; WIDTH]]) {
        for z in chunk {
            let (e, d) = exp_or_zero((V::load(z) - self.max) * self.inverse);
            (e * self.inverse_sum * self.slope.mul_add(d, self.constant)).store(z);
        }
    }
}

impl<E: Element> Vectorized for Write<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<V: Lanes>(self) {
        let inverse = 1.0 / self.temperature;
        // dz = -p/T · (g + h·(log p + H)), log p = d - log_sum.
        let constant = f64::from(self.by_log_prob)
            + f64::from(self.by_entropy) * (self.softmax.entropy - self.softmax.log_sum);
        let gradient = Gradient {
            max: V::splat(self.softmax.max),
            inverse: V::splat(inverse),
            inverse_sum: V::splat((-self.softmax.log_sum).exp() as f32),
            constant: V::splat(-constant as f32 * inverse),
            slope: V::splat(-self.by_entropy * inverse),
        };
        let mut buffer = [0.0; CHUNK];
        // Stores across two cache lines are slow. Each logit is computed by itself, so any may be the first.
        let first = self.grad.as_ptr().align_offset(CACHE_LINE) % CHUNK;
        let len = self.grad.len();
        let mut at = 0..first.min(len);
        while at.start < len {
            let n = at.len();
            let grad = &mut self.grad[at.clone()];
            if let Some(row) = self.row {
                grad.copy_from_slice(&row[at.clone()]);
            }
            at = at.end..len.min(at.end + CHUNK);
            if let Some(grad) = E::as_wide_mut(grad)
                && n == CHUNK
            {
                gradient.write(grad.as_chunks_mut::<WIDTH>().0);
                continue;
            }
            E::widen(grad, &mut buffer[..n]);
            let whole = n.next_multiple_of(WIDTH);
            gradient.write(buffer[..whole].as_chunks_mut::<WIDTH>().0);
            E::narrow(&buffer[..n], grad);
        }
    }
}
