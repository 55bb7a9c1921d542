//! Anchors of a task: greedy facility location over what its candidates cover, then the cut.
//!
//! F(C) = sum over covered units u of max over c in C that cover u of GS(c) is monotone and submodular, so greedy
//! reaches (1 - 1/e) of the best F.

use super::lazy::{Gains, lazy_greedy};
use super::{Anchor, AnchorConfig, cut, groupability, units};
use crate::backend::cpu::anchor_gain;
#[cfg(feature = "cuda")]
use crate::backend::cuda::anchor_gain as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::anchor_gain as wgpu;
use crate::code::{TaskCode, Windows};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::cover::UnitRanges;
use crate::similarity::Occurrences;

/// The anchors of one task, and how they came about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// Groups after the cut, in the order they were picked.
    pub anchors: Vec<Anchor>,
    /// Candidates looked at.
    pub n_candidates: usize,
    /// Candidates that occur in two trajectories or more.
    pub n_eligible: usize,
    /// Picks before the cut.
    pub n_picked: usize,
    /// Picks left with too few members by the cut.
    pub n_dropped: usize,
    /// Occurrences of all picks, before the cut.
    pub n_occurrences: usize,
    /// Members of all anchors, after the cut.
    pub n_members: usize,
    /// F of the picks, before the cut.
    pub gain: f64,
    /// Units that the picks cover, before the cut: lines or occurrences, as configured.
    pub n_covered_units: usize,
    /// Lines that the anchors' members cover, after the cut.
    pub n_covered_lines: usize,
    /// Gains evaluated. It does not depend on the number of threads.
    pub n_evaluations: usize,
}

/// Selects the anchors of one task. `windows` has the candidates and `occurrences` one list for each.
///
/// Candidates with occurrences in at least two trajectories are eligible. At most `config.max_anchors` are picked, each
/// the largest marginal gain, the lower index among equals, until no gain is left; then the cut makes groups of them.
///
/// # Errors
/// [`Error::Config`] for parameters out of range, or so small that a gain could be infinite; [`Error::Shape`] for
/// occurrences that do not fit the code; [`Error::Limit`] for more than 2^32 - 2 of them.
pub fn select(
    device: &Device,
    code: &TaskCode,
    windows: &Windows,
    occurrences: &Occurrences,
    config: &AnchorConfig,
) -> Result<Selection> {
    config.validate()?;
    units::check(code, windows.len(), occurrences)?;

    let n_candidates = occurrences.len();
    let eligible: Vec<u32> = (0..n_candidates as u32)
        .filter(|&candidate| cut::spans_trajectories(code, occurrences.of(candidate as usize)))
        .collect();
    let n_most_units = (code.line_ids.len() + occurrences.items.len()) as f64;
    let mut scores = Vec::with_capacity(eligible.len());
    for &candidate in &eligible {
        let members = occurrences.of(candidate as usize);
        let score = groupability(config, cut::mean_lines(members), members.len());
        // A gain is at most one score for each unit, and F at most as much.
        if !(score * n_most_units).is_finite() {
            let got = format!("{} (g0 {})", config.s0, config.g0);
            return Err(Error::Config {
                op: "anchors",
                name: "s0",
                got,
                expected: "large enough for finite scores and gains",
            });
        }
        scores.push(score);
    }

    let covered = units::units(code, occurrences, &eligible, config.unit);
    let ranges = UnitRanges { offsets: &covered.offsets, ranges: &covered.ranges };
    let mut picks: Vec<(u32, f64)> = vec![];
    let mut gain = 0.0;
    let take = |pick: u32, gain_of_pick: f64| {
        picks.push((eligible[pick as usize], scores[pick as usize]));
        gain += gain_of_pick;
    };
    let (n_evaluations, n_covered) = match device {
        Device::Cpu(_) => {
            let best = vec![0.0; covered.n_units];
            let first = anchor_gain::gains(ranges, &scores, &best);
            let mut gains =
                RangeGains { units: ranges, scores: &scores, first, best, n_covered: 0 };
            (lazy_greedy(&mut gains, config.max_anchors, take), gains.n_covered)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let k = config.max_anchors;
            cuda::greedy_ranges(device, ranges, &scores, covered.n_units, k, take)?
        }
        #[cfg(feature = "wgpu")]
        Device::Wgpu(gpu) => {
            let best = vec![0.0; covered.n_units];
            let first = wgpu::gains(gpu, ranges, &scores, &best)?;
            let mut gains =
                RangeGains { units: ranges, scores: &scores, first, best, n_covered: 0 };
            (lazy_greedy(&mut gains, config.max_anchors, take), gains.n_covered)
        }
    };

    let anchors = cut::cut(code, occurrences, &picks, config, |candidate| windows.first(candidate));
    let members = || anchors.iter().flat_map(|anchor| &anchor.members);
    Ok(Selection {
        n_candidates,
        n_eligible: eligible.len(),
        n_picked: picks.len(),
        n_dropped: picks.len() - anchors.len(),
        n_occurrences: picks
            .iter()
            .map(|&(candidate, _)| occurrences.of(candidate as usize).len())
            .sum(),
        n_members: members().count(),
        gain,
        n_covered_units: n_covered,
        n_covered_lines: members().map(|member| member.span.len as usize).sum(),
        n_evaluations,
        anchors,
    })
}

/// Gains of candidates that cover ranges of units, all with one score.
struct RangeGains<'a> {
    units: UnitRanges<'a>,
    scores: &'a [f64],
    /// Gains before the first pick, of all candidates: the work of a device. What is evaluated again later is one
    /// candidate at a time, on the host.
    first: Vec<f64>,
    /// The best score that covers each unit so far.
    best: Vec<f64>,
    n_covered: usize,
}

impl Gains for RangeGains<'_> {
    fn first_gains(&self) -> Vec<f64> {
        self.first.clone()
    }

    fn tighten(&mut self, candidate: usize, _: f64) -> (f64, bool) {
        (anchor_gain::gain(self.units, self.scores, &self.best, candidate), true)
    }

    fn pick(&mut self, candidate: usize) {
        let score = self.scores[candidate];
        self.n_covered += anchor_gain::cover(self.units, score, &mut self.best, candidate);
    }
}
