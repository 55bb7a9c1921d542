//! Upper bounds of gains from rows of bytes.
//!
//! A [`Scale`] has a base b and a step s. An edge of weight w gets the byte q, from 1 to 255; 0 is for no edge. A unit with
//! the best weight m so far gets the level l, from 0 to 255, and is *open* while m < b. The bound of a row is
//!
//! `(b · (edges to open units) + s · (sum of max(0, q - l)) + excess) · (1 + 1e-6)`.
//!
//! Proof that it is at least the gain. In real numbers, the rise of an edge is r = max(0, w - m), and the gain as it is
//! summed is at most (1 + 1.01 n 2^-53) · (sum of r) for n < 2^32 terms, all of them at least 0; the factor pays for that
//! and for the few roundings of the bound itself. So it is enough that each r is at most its share:
//!
//! - w <= b + q·s, or w is above b + 255·s and counted in the excess. y = fl(fl(w - b)/s) has a relative error below
//!   2^-50, and q is the integer next to y + 0.5001 (at least y + 0.0001), at least 1, at most 255. The excess of an edge
//!   with q = 255 is w - (b + 255·s) where that is above 0, with 1e-12·w for its roundings.
//! - m >= b + l·s for a unit that is not open: l is the integer below y - 0.0001, at most 255.
//! - Open: l is 0, and the share b + q·s (+ excess) is at least w, so at least r.
//! - Not open: the share is (q - l)·s + excess, or excess alone if q <= l. If w <= b + q·s + excess then
//!   w - m <= (q - l)·s + excess; and that is at most the share.
//!
//! A row is stored as stretches of units with small gaps, a byte for each unit, so that levels and bytes are read side by
//! side, sixteen at a time. A row whose units lie too far apart is not stored: its bound is infinite.

/// Units further apart than this begin a new stretch.
const MOST_GAP: u32 = 32;
/// Most bytes of a row for each of its edges, stretches included; more are not worth to read.
const MOST_BYTES: usize = 4;

/// Turns weights into bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    base: f64,
    step: f64,
    /// 1 / step.
    per_step: f64,
}

impl Scale {
    /// A scale that suits a sample of the weights; any weights may be used with it. None if they are too small.
    pub(super) fn new(weights: &[f64]) -> Option<Self> {
        let (mut least, mut most) = (f64::MAX, 0.0f64);
        for &weight in weights.iter().step_by(weights.len() / (1 << 16) + 1) {
            if weight > 0.0 && weight < f64::INFINITY {
                least = least.min(weight);
                most = most.max(weight);
            }
        }
        let step = ((most - least) / 253.0).max(most * 1e-9);
        let is_usable = step > 1e-290;
        is_usable.then_some(Scale { base: least, step, per_step: 1.0 / step })
    }

    fn steps(self, weight: f64) -> f64 {
        (weight - self.base) * self.per_step
    }

    /// From 1 to 255.
    fn byte(self, weight: f64) -> u32 {
        // Beyond 2^52 a float is an integer: adding it rounds, and leaves the integer in the low bits.
        const INTEGERS: f64 = (1u64 << 52) as f64;
        // Not `clamp`, which lets NaN through: it is found by another check.
        #[allow(clippy::manual_clamp)]
        let steps = (self.steps(weight) + 0.5001).max(1.0).min(255.0);
        (steps + INTEGERS).to_bits() as u32
    }

    fn level(self, best: f64) -> u8 {
        (self.steps(best) - 0.0001) as u8
    }
}

/// Where each unit stands.
#[derive(Debug)]
pub(super) struct Levels {
    scale: Scale,
    levels: Vec<u8>,
    /// 1 for an open unit.
    open: Vec<u8>,
}

impl Levels {
    pub(super) fn new(scale: Scale, n_units: usize) -> Self {
        Levels { scale, levels: vec![0; n_units], open: vec![1; n_units] }
    }

    /// The best weight of a unit is `best` now, more than before.
    pub(super) fn cover(&mut self, unit: u32, best: f64) {
        let unit = unit as usize;
        if best >= self.scale.base {
            self.open[unit] = 0;
            self.levels[unit] = self.scale.level(best);
        }
    }
}

/// A stretch of units.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: u32,
    len: u32,
}

#[derive(Debug)]
struct Row {
    first_stretch: usize,
    first_byte: usize,
    /// Infinite for a row that is not stored.
    excess: f64,
}

/// Rows of some candidates.
#[derive(Debug, Default)]
pub(super) struct ByteRows {
    /// Rows that ended.
    rows: Vec<Row>,
    stretches: Vec<Stretch>,
    bytes: Vec<u8>,
    /// Where the next row begins, and its excess so far.
    first_stretch: usize,
    first_byte: usize,
    excess: f64,
}

impl ByteRows {
    /// Makes room for rows of so many edges, if about half of their units are there.
    pub(super) fn reserve(&mut self, n_edges: usize) {
        self.bytes.reserve(n_edges * 2);
    }

    /// Adds at most 64 edges to the row that has not ended.
    pub(super) fn extend(&mut self, scale: Scale, units: &[u32], weights: &[f64]) {
        // Wide first, then packed: both steps fit the vector unit better than one.
        let (mut wide, mut bytes, mut most) = ([0; 64], [0; 64], 0);
        for (byte, &weight) in wide.iter_mut().zip(weights) {
            *byte = scale.byte(weight);
        }
        for (byte, &wide) in bytes.iter_mut().zip(&wide) {
            *byte = wide as u8;
        }
        for &byte in &bytes {
            most = byte.max(most);
        }
        if most == 255 {
            let top = scale.base + 255.0 * scale.step;
            for &weight in weights {
                if weight > top {
                    self.excess += (weight - top) + 1e-12 * weight;
                }
            }
        }
        // In a part as a rule each unit follows the one before it closely.
        let mut farthest = 0;
        for pair in units.windows(2) {
            farthest = farthest.max(pair[1].wrapping_sub(pair[0]).wrapping_sub(1));
        }
        if farthest < MOST_GAP && units.first() <= units.last() {
            self.push(units, &bytes);
        } else {
            for (unit, byte) in units.iter().zip(&bytes) {
                self.push(std::slice::from_ref(unit), std::slice::from_ref(byte));
            }
        }
    }

    /// Adds ascending units with small gaps.
    fn push(&mut self, units: &[u32], bytes: &[u8]) {
        let (Some(&first), Some(&last)) = (units.first(), units.last()) else { return };
        let n_units = (last - first) as usize + 1;
        let gap_after = |stretch: &Stretch| {
            let gap = first.checked_sub(stretch.first)?.checked_sub(stretch.len)?;
            (gap < MOST_GAP).then_some(gap)
        };
        let mut start = self.bytes.len();
        if let Some(stretch) = self.stretches[self.first_stretch..].last_mut()
            && let Some(gap) = gap_after(stretch)
        {
            stretch.len += gap + n_units as u32;
            start += gap as usize;
        } else {
            self.stretches.push(Stretch { first, len: n_units as u32 });
        }
        self.bytes.resize(start + n_units, 0);
        let row = &mut self.bytes[start..];
        for (&unit, &byte) in units.iter().zip(bytes) {
            row[(unit - first) as usize] = byte;
        }
    }

    /// Ends a row of so many edges.
    pub(super) fn end(&mut self, n_edges: usize) {
        let n_bytes = self.bytes.len() - self.first_byte
            + (self.stretches.len() - self.first_stretch) * size_of::<Stretch>();
        if n_bytes > n_edges * MOST_BYTES {
            self.bytes.truncate(self.first_byte);
            self.stretches.truncate(self.first_stretch);
            self.excess = f64::INFINITY;
        }
        let Self { first_stretch, first_byte, excess, .. } = *self;
        self.rows.push(Row { first_stretch, first_byte, excess });
        self.first_stretch = self.stretches.len();
        self.first_byte = self.bytes.len();
        self.excess = 0.0;
    }

    /// The bound of a row.
    pub(super) fn bound(&self, row: usize, levels: &Levels) -> f64 {
        let Row { first_stretch, first_byte, excess } = self.rows[row];
        let end = self.rows.get(row + 1).map_or(self.stretches.len(), |next| next.first_stretch);
        let mut bytes = &self.bytes[first_byte..];
        let (mut n_steps, mut n_open) = (0, 0);
        for &Stretch { first, len } in &self.stretches[first_stretch..end] {
            let units = first as usize..first as usize + len as usize;
            let (stretch, rest) = bytes.split_at(units.len());
            bytes = rest;
            let (steps, open) =
                steps_and_open(stretch, &levels.levels[units.clone()], &levels.open[units]);
            n_steps += steps;
            n_open += open;
        }
        let Scale { base, step, .. } = levels.scale;
        (base * n_open as f64 + step * n_steps as f64 + excess) * (1.0 + 1e-6)
    }
}

/// Bytes that are added up sixteen at a time before the sums are read: the 255 · 128 of a sum fit in 16 bits, and its 128
/// ones in 8.
const RUN: usize = 16 * 128;

/// The sum of max(0, byte - level), and how many bytes above 0 stand where `open` is 1.
fn steps_and_open(bytes: &[u8], levels: &[u8], open: &[u8]) -> (u64, u64) {
    let (mut n_steps, mut n_open) = (0, 0);
    let runs = bytes.chunks(RUN).zip(levels.chunks(RUN)).zip(open.chunks(RUN));
    for ((bytes, levels), open) in runs {
        let (mut steps, mut ones) = ([0u16; 16], [0u8; 16]);
        let (bytes, last_bytes) = bytes.as_chunks::<16>();
        let (levels, last_levels) = levels.as_chunks::<16>();
        let (open, last_open) = open.as_chunks::<16>();
        for ((bytes, levels), open) in bytes.iter().zip(levels).zip(open) {
            for i in 0..16 {
                steps[i] += u16::from(bytes[i].saturating_sub(levels[i]));
                ones[i] += bytes[i].min(open[i]);
            }
        }
        n_steps += steps.iter().map(|&sum| u64::from(sum)).sum::<u64>();
        n_open += ones.iter().map(|&sum| u64::from(sum)).sum::<u64>();
        for ((&byte, &level), &open) in last_bytes.iter().zip(last_levels).zip(last_open) {
            n_steps += u64::from(byte.saturating_sub(level));
            n_open += u64::from(byte.min(open));
        }
    }
    (n_steps, n_open)
}
