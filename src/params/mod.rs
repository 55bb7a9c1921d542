//! Plain numbers that cross from a stage into a backend: the only types that both sides know.

pub(crate) mod arrays;
pub(crate) mod cover;
pub(crate) mod limits;
pub(crate) mod loss;
pub(crate) mod metrics;
pub(crate) mod windows;

/// An exact threshold on the Indel similarity `2·L/(m+n)` of two sequences of lengths m and n with a longest common
/// subsequence of length L.
///
/// `least[s]` is the least L with `2.0 * L as f64 / s as f64 >= eta` evaluated in f64, for `s = m + n`; so a pair
/// matches iff `L >= least[m + n]`, with the rounding of the reference and of rapidfuzz. `least[0]` is 0: two empty
/// sequences have similarity 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeastLcs {
    least: Vec<u32>,
}

impl LeastLcs {
    /// The table for sums up to `max_sum`. `eta` is in [0, 1].
    pub(crate) fn new(eta: f64, max_sum: usize) -> Self {
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
    pub(crate) fn of(&self, sum: usize) -> u32 {
        self.least[sum]
    }

    /// The least LCS for each sum from 0.
    #[inline]
    pub(crate) fn all(&self) -> &[u32] {
        &self.least
    }
}

/// Two items that match, `a < b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// The lower index.
    pub a: u32,
    /// The higher index.
    pub b: u32,
    /// Length of their longest common subsequence, in code tokens.
    pub lcs: u32,
}

/// A run of bytes and the number of the member that owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte.
    pub(crate) start: usize,
    /// One past the last byte.
    pub(crate) end: usize,
    /// Owner, below the number of members.
    pub(crate) member: u32,
}

/// The number of a token without owner.
pub(crate) const NO_OWNER: u32 = u32::MAX;

/// How a value becomes an advantage inside its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupForm {
    /// Divide the distance from the mean by `std + eps`.
    pub(crate) divide: bool,
    /// Measure from the mean of the other members instead of the mean of all.
    pub(crate) leave_one_out: bool,
    /// Added to the standard deviation, once.
    pub(crate) eps: f64,
    /// Degrees of freedom taken off in the variance.
    pub(crate) ddof: u32,
}

/// What happened in the groups of one call. Nothing is 0 in silence: every advantage that is 0 for want of a
/// comparison is counted here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct GroupCounts {
    /// Groups with at least one member.
    pub n_groups: usize,
    /// Members of all groups.
    pub n_members: usize,
    /// Groups without a comparator: a single scored member, or too few for the variance.
    pub n_singletons: usize,
    /// Groups of two scored members or more that all have the same value.
    pub n_zero_spread: usize,
    /// Members without a finite value (or of weight 0): outside all statistics, advantage 0.
    pub n_unscored: usize,
    /// Scored members whose advantage is beyond f32, or whose group's spread is beyond f64: advantage 0.
    pub n_not_finite: usize,
}

impl GroupCounts {
    /// Both added up.
    pub fn plus(self, other: GroupCounts) -> GroupCounts {
        GroupCounts {
            n_groups: self.n_groups + other.n_groups,
            n_members: self.n_members + other.n_members,
            n_singletons: self.n_singletons + other.n_singletons,
            n_zero_spread: self.n_zero_spread + other.n_zero_spread,
            n_unscored: self.n_unscored + other.n_unscored,
            n_not_finite: self.n_not_finite + other.n_not_finite,
        }
    }

    /// True when there are several groups and none of them has a comparator: most often the groups were keyed by
    /// rollout instead of by task, and every advantage is 0.
    pub fn all_singletons(&self) -> bool {
        self.n_groups > 1 && self.n_singletons == self.n_groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_f64_expression() {
        for eta in [0.0, 1e-6, 0.1, 1.0 / 3.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.999, 1.0] {
            let table = LeastLcs::new(eta, 400);
            assert_eq!(table.of(0), 0);
            for sum in 1..=400 {
                for l in 0..=sum as u32 / 2 {
                    let reaches = 2.0 * f64::from(l) / sum as f64 >= eta;
                    assert_eq!(l >= table.of(sum), reaches, "eta {eta}, L {l} of {sum}");
                }
            }
        }
        // 0.8 of 10 tokens in all: 4 of 5. 0.9 of 20: 9 of 10.
        assert_eq!((LeastLcs::new(0.8, 10).of(10), LeastLcs::new(0.9, 20).of(20)), (4, 9));
        assert_eq!((LeastLcs::new(0.8, 11).of(11), LeastLcs::new(0.9, 21).of(21)), (5, 10));
    }
}
