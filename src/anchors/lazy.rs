//! Greedy selection with lazy evaluation (Minoux 1978; CELF, Leskovec et al. 2007), equal to naive greedy pick for pick.
//!
//! Of every candidate the last known bound of its gain is kept; for a submodular function a gain from before is one. A
//! round first looks at the largest bounds, to find a high gain early: the *lead*. Then it goes over the candidates in
//! order and lowers each bound that is not below the lead, until it is below or is the gain. So a bound that is low
//! enough costs nothing, and where most bounds are too high, as on dense graphs, memory is read in order.
//!
//! A candidate is passed over only when `bound < lead`, and `gain <= bound` holds for the rounded numbers (see the
//! implementations of [`Gains`]). Among equal gains the lower index leads, whatever the order of evaluation: exactly what
//! a scan of all candidates picks. Bounds stand in blocks that know their largest, so a round that evaluates little costs
//! about n / 128 comparisons.

/// Gains of a monotone submodular function, given what has been picked.
pub(super) trait Gains {
    /// The gain of every candidate before the first pick. Not negative.
    fn first_gains(&self) -> Vec<f64>;
    /// The gain of a candidate now and true, or a bound of it below `enough` and false. No gain, and no bound that is
    /// returned, is above a gain of the candidate from before.
    fn tighten(&mut self, candidate: usize, enough: f64) -> (f64, bool);
    /// Picks a candidate. Its gain is 0 from then on.
    fn pick(&mut self, candidate: usize);
}

/// Bounds of a block.
const BLOCK: usize = 128;
/// How many of the largest bounds a round looks at before it goes over all.
const MOST_FIRST_LOOKS: usize = 128;

/// Hands over at most `k` picks with their gains. Returns how many gains and bounds were evaluated.
pub(super) fn lazy_greedy(
    gains: &mut impl Gains,
    k: usize,
    mut sink: impl FnMut(u32, f64),
) -> usize {
    if k == 0 {
        return 0;
    }
    let mut bounds = Bounds::new(gains.first_gains());
    let mut n_evaluations = bounds.of.len();
    // For which number of picks each bound is the gain.
    let mut gain_at = vec![0; bounds.of.len()];
    for n_picked in 0..k {
        let mut lead = Lead { gain: 0.0, candidate: usize::MAX };
        let mut look = |candidate: usize, bound: &mut f64, lead: &mut Lead| {
            if gain_at[candidate] != n_picked {
                let (found, is_gain) = gains.tighten(candidate, lead.gain);
                n_evaluations += 1;
                *bound = found;
                if !is_gain {
                    return;
                }
                gain_at[candidate] = n_picked;
            }
            lead.meet(*bound, candidate);
        };
        for _ in 0..MOST_FIRST_LOOKS {
            let Some(candidate) = bounds.first_above(lead.gain) else { break };
            look(candidate, &mut bounds.of[candidate], &mut lead);
            bounds.renew(candidate / BLOCK);
        }
        for block in 0..bounds.tops.len() {
            if bounds.tops[block] == 0.0 || bounds.tops[block] < lead.gain {
                continue;
            }
            let first = block * BLOCK;
            for (i, bound) in bounds.block(block).iter_mut().enumerate() {
                if *bound > 0.0 && *bound >= lead.gain {
                    look(first + i, bound, &mut lead);
                }
            }
            bounds.renew(block);
        }
        if lead.gain == 0.0 {
            break;
        }
        gains.pick(lead.candidate);
        sink(lead.candidate as u32, lead.gain);
        bounds.of[lead.candidate] = 0.0;
        bounds.renew(lead.candidate / BLOCK);
    }
    n_evaluations
}

/// The best gain of a round so far.
struct Lead {
    gain: f64,
    candidate: usize,
}

impl Lead {
    fn meet(&mut self, gain: f64, candidate: usize) {
        if gain > self.gain || (gain == self.gain && candidate < self.candidate && gain > 0.0) {
            *self = Lead { gain, candidate };
        }
    }
}

/// Bounds of all candidates, and the largest of each block.
struct Bounds {
    of: Vec<f64>,
    tops: Vec<f64>,
}

impl Bounds {
    fn new(of: Vec<f64>) -> Self {
        let tops = of.chunks(BLOCK).map(largest).collect();
        Bounds { of, tops }
    }

    /// The first candidate of the largest bound, if that is above a gain.
    fn first_above(&self, gain: f64) -> Option<usize> {
        let most = largest(&self.tops);
        if most <= gain {
            return None;
        }
        let block = self.tops.iter().position(|&top| top == most)?;
        let candidates = self.of.get(block * BLOCK..)?;
        candidates.iter().position(|&bound| bound == most).map(|i| block * BLOCK + i)
    }

    fn block(&mut self, block: usize) -> &mut [f64] {
        let end = self.of.len().min((block + 1) * BLOCK);
        &mut self.of[block * BLOCK..end]
    }

    fn renew(&mut self, block: usize) {
        self.tops[block] = largest(self.block(block));
    }
}

/// The largest of numbers that are not negative, 0 of none.
fn largest(of: &[f64]) -> f64 {
    // Not `f64::max`, whose care for NaN costs two more instructions; eight, not to wait for each comparison.
    let larger = |a: f64, b: f64| if b > a { b } else { a };
    let (eights, rest) = of.as_chunks::<8>();
    let mut most = [0.0; 8];
    for eight in eights {
        for i in 0..8 {
            most[i] = larger(most[i], eight[i]);
        }
    }
    most.iter().chain(rest).fold(0.0, |a, &b| larger(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coverage of sets of bits, with bounds that are too high by up to `slack`.
    struct Sets {
        sets: Vec<u64>,
        covered: u64,
        slack: f64,
        n_exact: usize,
    }

    impl Gains for Sets {
        fn first_gains(&self) -> Vec<f64> {
            self.sets.iter().map(|set| f64::from(set.count_ones())).collect()
        }

        fn tighten(&mut self, candidate: usize, enough: f64) -> (f64, bool) {
            let gain = f64::from((self.sets[candidate] & !self.covered).count_ones());
            if gain + self.slack < enough {
                return (gain + self.slack, false);
            }
            self.n_exact += 1;
            (gain, true)
        }

        fn pick(&mut self, candidate: usize) {
            self.covered |= self.sets[candidate];
        }
    }

    #[test]
    fn picks_are_those_of_a_scan_with_any_slack_and_many_ties() {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 20
        };
        for n in [0, 1, 2, 127, 128, 129, 500] {
            for slack in [0.0, 0.5, 3.0, 100.0] {
                let sets: Vec<u64> = (0..n).map(|_| draw() & draw() & draw()).collect();
                let mut expected = vec![];
                let mut covered = 0u64;
                while expected.len() < 20 {
                    let gain = |i: &usize| (sets[*i] & !covered).count_ones();
                    let most = (0..n).map(|i| gain(&i)).max().unwrap_or(0);
                    let Some(pick) = (0..n).find(|i| gain(i) == most && most > 0) else { break };
                    expected.push((pick as u32, f64::from(most)));
                    covered |= sets[pick];
                }
                let mut found = vec![];
                let mut gains = Sets { sets, covered: 0, slack, n_exact: 0 };
                let n_evaluations =
                    lazy_greedy(&mut gains, 20, |pick, gain| found.push((pick, gain)));
                assert_eq!(found, expected, "{n} sets, slack {slack}");
                assert!(n_evaluations >= n + gains.n_exact);
            }
        }
    }
}
