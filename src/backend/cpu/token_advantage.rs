//! Group-relative advantages of segments, and the owner of every token.
//!
//! Both are linear: segments in one pass for the mean and one for the variance (f64, first member to last, one thread
//! a segment), owners in one merge of two sorted lists of byte ranges.

use rayon::prelude::*;

use crate::params::{GroupCounts, GroupForm, NO_OWNER, Piece};

/// Advantages of the members of each segment `offsets[g]..offsets[g + 1]`, into `out` (as long as `values`).
///
/// With weights w, W = sum w, mean = sum w·x / W and d = x - mean: the advantage is d; or d·W/(W - w), which is the
/// distance from the mean of the others; or d / (sqrt(sum w·d² / (W - ddof)) + eps). A value that is `None` or not
/// finite, or of weight 0, is in no sum and gets 0. `weights` of `None` is 1 for each.
pub(crate) fn segments(
    values: &[Option<f64>],
    weights: Option<&[u32]>,
    offsets: &[usize],
    form: GroupForm,
    out: &mut [f32],
) -> GroupCounts {
    let mut pieces = Vec::with_capacity(offsets.len().saturating_sub(1));
    let mut rest = out;
    for bounds in offsets.windows(2) {
        let (piece, after) = rest.split_at_mut(bounds[1] - bounds[0]);
        pieces.push((bounds[0], piece));
        rest = after;
    }
    pieces
        .into_par_iter()
        .with_min_len(64)
        .map(|(from, piece)| {
            let to = from + piece.len();
            segment(&values[from..to], weights.map(|weights| &weights[from..to]), form, piece)
        })
        .reduce(GroupCounts::default, GroupCounts::plus)
}

fn segment(
    values: &[Option<f64>],
    weights: Option<&[u32]>,
    form: GroupForm,
    out: &mut [f32],
) -> GroupCounts {
    out.fill(0.0);
    let mut counts = GroupCounts {
        n_groups: usize::from(!values.is_empty()),
        n_members: values.len(),
        ..GroupCounts::default()
    };
    let weight = |i: usize| weights.map_or(1.0, |weights| f64::from(weights[i]));
    let scored = |i: usize| values[i].filter(|x| x.is_finite() && weight(i) > 0.0);

    let (mut n, mut total, mut sum) = (0usize, 0.0, 0.0);
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for i in 0..values.len() {
        let Some(x) = scored(i) else { continue };
        n += 1;
        total += weight(i);
        sum += weight(i) * x;
        least = least.min(x);
        most = most.max(x);
    }
    counts.n_unscored = values.len() - n;
    if n == 0 {
        return counts;
    }
    if n == 1 || (form.divide && total <= f64::from(form.ddof)) {
        counts.n_singletons = 1;
        return counts;
    }
    if least == most {
        counts.n_zero_spread = 1;
        return counts;
    }

    let mean = sum / total;
    let mut scale = 1.0;
    if form.divide {
        let mut squares = 0.0;
        for i in 0..values.len() {
            let Some(x) = scored(i) else { continue };
            squares += weight(i) * ((x - mean) * (x - mean));
        }
        scale = (squares / (total - f64::from(form.ddof))).sqrt() + form.eps;
    }
    for i in 0..values.len() {
        let Some(x) = scored(i) else { continue };
        let mut advantage = x - mean;
        if form.leave_one_out {
            advantage *= total / (total - weight(i));
        }
        if form.divide {
            advantage /= scale;
        }
        let advantage = advantage as f32;
        // Over a spread beyond f64 everything would be 0.
        if advantage.is_finite() && scale.is_finite() {
            out[i] = advantage;
        } else {
            counts.n_not_finite += 1;
        }
    }
    counts
}

/// Owner of each token: the member with the most bytes in it, the lowest number among equals, [`NO_OWNER`] where no piece
/// touches it. Token `i` has the bytes `byte_ends[i-1]..byte_ends[i]`; a token without bytes has no owner. `pieces`
/// are disjoint and sorted; a member may have several.
///
/// O(tokens + pieces): a piece is met again only by the token in which it goes on. Most tokens meet at most one piece
/// and need no counting.
pub(crate) fn owners(byte_ends: &[u32], pieces: &[Piece], n_members: usize) -> Vec<u32> {
    let mut bytes_of = vec![0usize; n_members];
    let mut touched: Vec<u32> = Vec::new();
    let mut next = 0;
    let mut start = 0;
    let mut owners = vec![NO_OWNER; byte_ends.len()];
    for (owner, &end) in owners.iter_mut().zip(byte_ends) {
        let end = end as usize;
        while pieces.get(next).is_some_and(|piece| piece.end <= start) {
            next += 1;
        }
        let Some(first) = pieces.get(next) else { break };
        if first.start < end && start < end {
            if first.end >= end {
                *owner = first.member;
            } else {
                for piece in pieces[next..].iter().take_while(|piece| piece.start < end) {
                    let bytes = &mut bytes_of[piece.member as usize];
                    if *bytes == 0 {
                        touched.push(piece.member);
                    }
                    *bytes += piece.end.min(end) - piece.start.max(start);
                }
                *owner = largest(&mut touched, &mut bytes_of);
            }
        }
        start = end;
    }
    owners
}

/// The member with the most bytes, the lowest among equals. Leaves both lists as they were before the token.
fn largest(touched: &mut Vec<u32>, bytes_of: &mut [usize]) -> u32 {
    let (mut owner, mut most) = (NO_OWNER, 0);
    for member in touched.drain(..) {
        let bytes = std::mem::take(&mut bytes_of[member as usize]);
        if bytes > most || (bytes == most && member < owner) {
            (owner, most) = (member, bytes);
        }
    }
    owner
}
