//! Which lengths can match at all: the integer form of "similarity at least eta", by length.

use super::LeastLcs;

/// For every length n: the lengths that can match it, and the least common subsequence of any such match.
///
/// A pair of lengths (m, n) can match iff `min(m, n) >= T[m + n]`. T rises by at most 1 when its argument rises by 1,
/// so the lengths that can match n form one range, and both ends of the range rise with n.
#[derive(Debug)]
pub(crate) struct Limits {
    least: LeastLcs,
    by_length: Vec<LengthLimit>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LengthLimit {
    /// Shortest partner.
    pub(crate) shortest: u32,
    /// Longest partner, no more than the longest sequence there is.
    pub(crate) longest: u32,
    /// Least LCS with which any partner matches.
    pub(crate) least: u32,
}

impl Limits {
    /// Limits for sequences of up to `max_len` tokens. O(max_len) time and space.
    pub(crate) fn new(eta: f64, max_len: usize) -> Self {
        let least = LeastLcs::new(eta, 2 * max_len);
        let can_match = |m: usize, n: usize| m.min(n) as u64 >= u64::from(least.of(m + n));
        let (mut shortest, mut longest) = (0, 0);
        let by_length = (0..=max_len)
            .map(|n| {
                while shortest < n && !can_match(shortest, n) {
                    shortest += 1;
                }
                longest = longest.max(n);
                while longest < max_len && can_match(longest + 1, n) {
                    longest += 1;
                }
                LengthLimit {
                    shortest: shortest as u32,
                    longest: longest as u32,
                    least: least.of(shortest + n),
                }
            })
            .collect();
        Limits { least, by_length }
    }

    /// The limits of all lengths from 0.
    #[cfg(feature = "cuda")]
    pub(crate) fn all(&self) -> &[LengthLimit] {
        &self.by_length
    }

    /// The limits of a length.
    #[inline]
    pub(crate) fn of(&self, len: u32) -> LengthLimit {
        self.by_length[len as usize]
    }

    /// The least LCS with which two sequences whose lengths add up to `sum` match.
    #[inline]
    pub(crate) fn least(&self, sum: u32) -> u32 {
        self.least.of(sum as usize)
    }

    /// The least LCS with which a sequence of `len` tokens matches one of 0, 1, 2… tokens, up to the longest there is.
    #[inline]
    pub(crate) fn least_from(&self, len: u32) -> &[u32] {
        &self.least.all()[len as usize..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_exactly_the_lengths_that_can_match() {
        for eta in [1e-3, 0.3, 0.5, 0.8, 0.9, 1.0] {
            let max_len = 70;
            let limits = Limits::new(eta, max_len);
            for n in 0..=max_len {
                let limit = limits.of(n as u32);
                for m in 0..=max_len {
                    // The longest common subsequence possible has the shorter length.
                    let can = m + n == 0 || 2.0 * m.min(n) as f64 / (m + n) as f64 >= eta;
                    let in_range = (limit.shortest..=limit.longest).contains(&(m as u32));
                    assert_eq!(in_range, can, "eta {eta}, {m} and {n}");
                }
            }
        }
    }
}
