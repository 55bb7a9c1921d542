//! Plain numbers that cross from a stage into a backend: the only types that both sides know.

/// An exact threshold on the Indel similarity `2·L/(m+n)` of two sequences of lengths m and n with a longest common
/// subsequence of length L.
///
/// `least[s]` is the least L with `2.0 * L as f64 / s as f64 >= eta` evaluated in f64, for `s = m + n`; so a pair
/// matches iff `L >= least[m + n]`, with the rounding of the reference and of rapidfuzz. `least[0]` is 0: two empty
/// sequences have similarity 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeastLcs {
    least: Vec<u32>,
}

impl LeastLcs {
    /// The table for sums up to `max_sum`. `eta` is in (0, 1].
    pub fn new(eta: f64, max_sum: usize) -> Self {
        let reaches = |l: u32, s: usize| 2.0 * f64::from(l) / s as f64 >= eta;
        let least = (0..=max_sum)
            .map(|s| {
                if s == 0 {
                    return 0;
                }
                let mut l = (eta * s as f64 / 2.0) as u32;
                while l > 0 && reaches(l - 1, s) {
                    l -= 1;
                }
                while !reaches(l, s) {
                    l += 1;
                }
                l
            })
            .collect();
        LeastLcs { least }
    }

    /// The least LCS that matches for two sequences whose lengths add up to `sum`.
    #[inline]
    pub fn of(&self, sum: usize) -> u32 {
        self.least[sum]
    }

    /// The whole table, indexed by m + n.
    pub fn as_slice(&self) -> &[u32] {
        &self.least
    }
}
