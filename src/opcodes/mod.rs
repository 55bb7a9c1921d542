//! The grouping of the authors' released code, number for number, on all pairs: for comparisons with it.
//!
//! Where [`crate::pipeline`] compares every window with every other, that code lines up each pair of root diffs with
//! CPython's `difflib` and takes what the opcodes say: runs of equal lines, and replaced runs whose texts have a
//! character ratio of `sim_thresh` or more. Equal texts form a bucket; a bucket whose first text is similar to that of a
//! larger one joins it; a greedy choice and a cut make anchors of buckets.
//!
//! `difflib`'s matches depend on the order of its arguments and, in its default, on `autojunk`, which leaves frequent
//! symbols out of sequences of 200 or more. Both are kept: [`Matcher`] finds the blocks that it finds. What is faster is
//! the decision "ratio at least η": lengths, counts of characters and the longest common subsequence are upper bounds of
//! what `difflib` can match, so that it is only asked where they leave the answer open.
//!
//! `exp`, `log` and `log1p` are the system's here, as in CPython; elsewhere in this crate they are `libm`'s.

mod fill;
mod group;
mod matcher;
mod similar;
mod texts;

use rayon::prelude::*;

use crate::error::{Error, Result};

pub use fill::{Filled, Unit, baselined, fill, mean};
pub use group::groupability;
pub use matcher::{Block, Matcher, Opcode, Scratch, Tag, opcodes, ratio};
pub use similar::refine;

/// How a size or a count becomes a factor of the groupability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `1 - exp(-x / scale)`.
    Saturating,
    /// Logarithm over that of the scale, at most 1.
    Log,
    /// `x / scale`, at most 1.
    Linear,
}

impl Form {
    /// By the authors' name.
    pub fn from_name(name: &str) -> Option<Form> {
        match name {
            "saturating" => Some(Form::Saturating),
            "log" => Some(Form::Log),
            "linear" => Some(Form::Linear),
            _ => None,
        }
    }
}

/// Parameters, by the authors' names.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Least character ratio of two texts that are taken for the same; 1 or more merges no buckets.
    pub sim_thresh: f64,
    /// Scale of the size, in lines.
    pub phi_s0: f64,
    /// Scale of the count.
    pub psi_count_ref: f64,
    /// Form of the size's factor.
    pub phi: Form,
    /// Form of the count's factor.
    pub psi: Form,
    /// Most anchors of a task; 0 or less for no limit.
    pub max_anchors: i64,
    /// Blocks of fewer lines are left out.
    pub min_block_lines: i64,
    /// Most pairs of root diffs of an edit type that are lined up; less than 0 for all of them.
    pub max_pairs: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sim_thresh: 0.8,
            phi_s0: 8.0,
            psi_count_ref: 8.0,
            phi: Form::Saturating,
            psi: Form::Saturating,
            max_anchors: 64,
            min_block_lines: 1,
            max_pairs: -1,
        }
    }
}

impl Settings {
    fn validate(&self) -> Result<()> {
        let numbers = [
            ("sim_thresh", self.sim_thresh),
            ("phi_s0", self.phi_s0),
            ("psi_count_ref", self.psi_count_ref),
        ];
        for (name, value) in numbers {
            if !value.is_finite() {
                let (got, expected) = (value.to_string(), "a finite number");
                return Err(Error::Config { op: "opcodes", name, got, expected });
            }
        }
        Ok(())
    }
}

/// A root diff of one row of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// Number of the row: occurrences of an anchor are in different rows.
    pub row: usize,
    /// Its edit type; types never match each other.
    pub edit_type: String,
    /// Its lines, normalised.
    pub lines: Vec<String>,
    /// The text in which the lines are found, for their places.
    pub source: String,
    /// Characters of the response that it takes up.
    pub chars: (i64, i64),
    /// Tokens of the response that it takes up.
    pub tokens: (i64, i64),
}

/// Lines of a root diff that an anchor has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// Number of the root in what was given.
    pub root: usize,
    /// Its lines, from and to (not included).
    pub lines: (usize, usize),
    /// Characters, in proportion to those of the root.
    pub chars: (i64, i64),
    /// Tokens, in proportion to those of the root.
    pub tokens: (i64, i64),
}

/// A group: texts that recur in several rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// At most one of each row.
    pub occurrences: Vec<Occurrence>,
    /// Groupability, after the cut.
    pub gs: f64,
    /// Lines of an occurrence, on average.
    pub mean_size: f64,
    /// The first text before the cut, 120 characters of it.
    pub preview: String,
}

/// The anchors of a task, in the order in which they were selected, and how many there were before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grouped {
    /// Groups after the cut.
    pub anchors: Vec<Anchor>,
    /// Buckets with two rows or more.
    pub n_candidates: usize,
    /// Of these the ones that were selected, before the cut.
    pub n_selected: usize,
}

/// The groups of one task.
///
/// # Errors
/// [`Error::Config`] for a number that is not finite.
pub fn grouped(roots: &[Root], settings: &Settings) -> Result<Grouped> {
    settings.validate()?;
    Ok(group::grouped(roots, settings))
}

/// The anchors of each task, in the order in which they were selected. Tasks run in parallel.
///
/// # Errors
/// [`Error::Config`] for a number that is not finite.
pub fn anchors<T: AsRef<[Root]> + Sync>(
    tasks: &[T],
    settings: &Settings,
) -> Result<Vec<Vec<Anchor>>> {
    settings.validate()?;
    Ok(tasks.par_iter().map(|roots| group::grouped(roots.as_ref(), settings).anchors).collect())
}
