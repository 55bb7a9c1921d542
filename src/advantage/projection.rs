//! Projection: advantages of trajectories, occurrences and steps onto the bytes and tokens of a sequence.
//!
//! A byte belongs to the covering occurrence with the largest groupability. A token belongs to the occurrence that
//! owns most of its bytes, the earlier among equals; so a token that touches any occurrence has exactly one owner.
//! A token without bytes has none. O(tokens + covers·log covers) per sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::backend::cpu::token_advantage as cpu;
#[cfg(feature = "cuda")]
use crate::backend::cuda::token_advantage as cuda;
#[cfg(feature = "wgpu")]
use crate::backend::wgpu::token_advantage as wgpu;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::{NO_OWNER, Piece};
use crate::rollout::{Sequence, Tokens};

/// A piece of an occurrence: a run of bytes of a sequence that it covers.
///
/// Lines of an occurrence need not be neighbours in the text, so it may have several pieces, all with the same
/// `member`, `advantage`, `anchor` and `score`. Its bytes in a token are added up over its pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct Cover {
    /// Bytes of [`Sequence::text`].
    pub bytes: Range<usize>,
    /// Occurrence, any number that is its own within the sequence.
    pub member: u32,
    /// What the occurrence adds to the episode advantage: lambda · A^D.
    pub advantage: f32,
    /// Anchor whose group it is in.
    pub anchor: u32,
    /// Groupability of the anchor: where covers overlap, the larger one has the byte; among equals, the occurrence
    /// that begins earlier, then the lower anchor, then the lower member.
    pub score: f64,
}

/// Bytes with an advantage of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct ByteSpan {
    /// Bytes of [`Sequence::text`].
    pub bytes: Range<usize>,
    /// Beside the episode advantage.
    pub advantage: f32,
    /// Anchor, where an occurrence covers the bytes; `None` where only a step advantage does.
    pub anchor: Option<u32>,
}

/// Trained tokens with an advantage of their own.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenSpan {
    /// Positions in [`Tokens`].
    pub tokens: Range<u32>,
    /// Beside the episode advantage.
    pub advantage: f32,
    /// Anchor, where an occurrence owns the tokens; `None` where there is only a step advantage.
    pub anchor: Option<u32>,
}

/// Credit of one sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SequenceCredit {
    /// Episode advantage A^E, for every trained token.
    pub episode: f32,
    /// Disjoint and sorted, whether or not the tokens are known. Two neighbours are different occurrences or turns.
    pub byte_spans: Vec<ByteSpan>,
    /// Disjoint and sorted; trained tokens only. Empty when the tokens are not known.
    pub token_spans: Vec<TokenSpan>,
    /// Number of tokens of the sequence, when known.
    pub n_tokens: Option<u32>,
}

impl SequenceCredit {
    /// Advantage of every token, 0 outside the mask: `episode + span` in f32, where the span's advantage is the step's
    /// plus the occurrence's (or the one of them that there is), added before.
    ///
    /// # Errors
    /// [`Error::Shape`] when these are not the tokens that were projected onto.
    pub fn dense(&self, tokens: &Tokens) -> Result<Vec<f32>> {
        let n = tokens.mask.len();
        let fits = |span: &TokenSpan| {
            span.tokens.start <= span.tokens.end && span.tokens.end as usize <= n
        };
        if self.n_tokens.is_none_or(|projected| projected as usize != n)
            || !self.token_spans.iter().all(fits)
        {
            let projected =
                self.n_tokens.map_or("none".to_string(), |projected| projected.to_string());
            let what = format!(
                "{n} tokens given, {projected} projected onto; pass the tokens of the same sequence"
            );
            return Err(Error::Shape { op: "dense", what });
        }
        let mut dense: Vec<f32> =
            tokens.mask.iter().map(|&trained| if trained { self.episode } else { 0.0 }).collect();
        for span in &self.token_spans {
            dense[span.tokens.start as usize..span.tokens.end as usize]
                .fill(self.episode + span.advantage);
        }
        Ok(dense)
    }
}

/// Dense advantages of several sequences, one after the other, with their offsets: sequence `i` has the values
/// `offsets[i]..offsets[i + 1]`.
///
/// # Errors
/// As [`SequenceCredit::dense`]; also when there are not as many credits as token lists.
pub fn dense_ragged(
    credits: &[SequenceCredit],
    tokens: &[&Tokens],
) -> Result<(Vec<f32>, Vec<usize>)> {
    super::returns::same_length("dense", ("credits", credits.len()), ("tokens", tokens.len()))?;
    let mut values = Vec::new();
    let mut offsets = vec![0];
    for (credit, tokens) in credits.iter().zip(tokens) {
        values.extend(credit.dense(tokens)?);
        offsets.push(values.len());
    }
    Ok((values, offsets))
}

/// Puts the episode advantage, the covers and the step advantages of one sequence onto its bytes and, when they are
/// known, its tokens.
///
/// `turn_advantages` has omega · A^S of each turn of the sequence; a token is in the turn that has most of its bytes,
/// the earlier among equals. A token without bytes belongs to no occurrence, and for the step advantage to the turn it
/// stands in or closes (an end-of-turn token is an action of its turn). The mask decides what is trained.
///
/// # Errors
/// [`Error::Input`] with the place of the sequence: covers or turns that leave the text, pieces of one member that
/// disagree, turns out of order, tokens that do not fit the text, advantages that are not finite or whose sum is not.
pub fn project(
    device: &Device,
    sequence: &Sequence,
    episode: f32,
    covers: &[Cover],
    turn_advantages: Option<&[f32]>,
) -> Result<SequenceCredit> {
    check(sequence, episode, covers, turn_advantages)?;
    let members = members(sequence, covers)?;
    let pieces = own_bytes(covers, &members);
    let turns: Vec<Piece> = match turn_advantages {
        None => Vec::new(),
        Some(_) => turn_pieces(sequence),
    };
    let advantage_of = |turn: u32, member: u32| {
        let step = turn_advantages.and_then(|steps| steps.get(turn as usize)).copied();
        let cover = members.get(member as usize).map(|&first| &covers[first]);
        let advantage = match (step, cover) {
            (Some(step), Some(cover)) => step + cover.advantage,
            (Some(step), None) => step,
            (None, Some(cover)) => cover.advantage,
            (None, None) => 0.0,
        };
        (advantage, cover.map(|cover| cover.anchor))
    };
    let mut credit = SequenceCredit { episode, ..SequenceCredit::default() };

    for (bytes, turn, member) in overlay(&turns, &pieces) {
        let (advantage, anchor) = advantage_of(turn, member);
        if anchor.is_some() || advantage != 0.0 {
            credit.byte_spans.push(ByteSpan { bytes, advantage, anchor });
        }
    }

    if let Some(tokens) = &sequence.tokens {
        credit.n_tokens = Some(tokens.mask.len() as u32);
        let (owner, turn) = match device {
            Device::Cpu(_) => (
                cpu::owners(&tokens.byte_ends, &pieces, members.len()),
                cpu::owners(&tokens.byte_ends, &turns, sequence.turns.len()),
            ),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => (
                cuda::owners(device, &tokens.byte_ends, &pieces)?,
                cuda::owners(device, &tokens.byte_ends, &turns)?,
            ),
            #[cfg(feature = "wgpu")]
            Device::Wgpu(gpu) => (
                wgpu::owners(gpu, &tokens.byte_ends, &pieces, members.len())?,
                wgpu::owners(gpu, &tokens.byte_ends, &turns, sequence.turns.len())?,
            ),
        };
        let turn = with_empty_tokens(turn, &tokens.byte_ends, &turns);
        for (tokens, turn, member) in token_runs(&tokens.mask, &turn, &owner) {
            let (advantage, anchor) = advantage_of(turn, member);
            if anchor.is_some() || advantage != 0.0 {
                credit.token_spans.push(TokenSpan { tokens, advantage, anchor });
            }
        }
    }

    let sums = credit.byte_spans.iter().map(|span| span.advantage);
    let sums = sums.chain(credit.token_spans.iter().map(|span| span.advantage));
    if sums.into_iter().any(|advantage| !(episode + advantage).is_finite()) {
        let what = "the episode, step and diff advantages of a token add up beyond f32; scale the rewards down";
        return Err(Error::input(sequence.place.clone(), what));
    }
    Ok(credit)
}

/// Index of the first cover of each member; members in the order in which ties are decided.
fn members(sequence: &Sequence, covers: &[Cover]) -> Result<Vec<usize>> {
    let mut order: Vec<usize> =
        (0..covers.len()).filter(|&i| !covers[i].bytes.is_empty()).collect();
    order.sort_unstable_by_key(|&i| (covers[i].member, covers[i].bytes.start, i));
    for pair in order.windows(2) {
        let (a, b) = (&covers[pair[0]], &covers[pair[1]]);
        let alike = a.advantage.to_bits() == b.advantage.to_bits()
            && a.anchor == b.anchor
            && a.score == b.score;
        if a.member == b.member && !alike {
            let what =
                format!("pieces of member {} differ in advantage, anchor or score", a.member);
            return Err(Error::input(sequence.place.clone(), what));
        }
    }
    order.dedup_by_key(|i| covers[*i].member);
    order.sort_unstable_by_key(|&i| (covers[i].bytes.start, covers[i].anchor, covers[i].member));
    Ok(order)
}

/// Which member owns which bytes: disjoint sorted pieces, neighbours of one member joined. A sweep over the ends of
/// the covers with a heap of those that are open.
fn own_bytes(covers: &[Cover], members: &[usize]) -> Vec<Piece> {
    let mut numbers: Vec<(u32, u32)> = members
        .iter()
        .enumerate()
        .map(|(number, &first)| (covers[first].member, number as u32))
        .collect();
    numbers.sort_unstable();
    let number_of = |member: u32| {
        let at = numbers.binary_search_by_key(&member, |&(member, _)| member);
        at.map_or(NO_OWNER, |at| numbers[at].1)
    };

    let mut opens: Vec<(usize, usize, u32)> = covers
        .iter()
        .filter(|cover| !cover.bytes.is_empty())
        .map(|cover| (cover.bytes.start, cover.bytes.end, number_of(cover.member)))
        .collect();
    opens.sort_unstable();
    // Members by descending score, then by number: the place in that order is the priority.
    let mut by_score: Vec<u32> = (0..members.len() as u32).collect();
    // Adding +0 makes one zero of both.
    let score = |number: u32| covers[members[number as usize]].score + 0.0;
    by_score.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
    let mut priority = vec![0u32; members.len()];
    for (place, &number) in by_score.iter().enumerate() {
        priority[number as usize] = place as u32;
    }

    let mut bounds: Vec<usize> = opens.iter().flat_map(|&(start, end, _)| [start, end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut active: BinaryHeap<Reverse<(u32, usize, u32)>> = BinaryHeap::new();
    let mut next = 0;
    for pair in bounds.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        while let Some(&(_, open_end, number)) = opens.get(next).filter(|open| open.0 <= start) {
            active.push(Reverse((priority[number as usize], open_end, number)));
            next += 1;
        }
        while active.peek().is_some_and(|Reverse(top)| top.1 <= start) {
            active.pop();
        }
        let Some(&Reverse((_, _, member))) = active.peek() else { continue };
        match pieces.last_mut() {
            Some(last) if last.end == start && last.member == member => last.end = end,
            _ => pieces.push(Piece { start, end, member }),
        }
    }
    pieces
}

/// Turns that have bytes, as pieces numbered by their place in the sequence.
fn turn_pieces(sequence: &Sequence) -> Vec<Piece> {
    let pieces = sequence.turns.iter().enumerate();
    pieces
        .filter(|(_, turn)| !turn.bytes.is_empty())
        .map(|(number, turn)| Piece {
            start: turn.bytes.start,
            end: turn.bytes.end,
            member: number as u32,
        })
        .collect()
}

/// The turns of tokens without bytes: the one they stand in or behind.
fn with_empty_tokens(mut turn: Vec<u32>, byte_ends: &[u32], turns: &[Piece]) -> Vec<u32> {
    if turns.is_empty() {
        return turn;
    }
    let mut next = 0;
    let mut start = 0;
    for (turn, &end) in turn.iter_mut().zip(byte_ends) {
        let end = end as usize;
        if start == end {
            while turns.get(next).is_some_and(|piece| piece.end < end) {
                next += 1;
            }
            *turn = turns
                .get(next)
                .filter(|piece| piece.start <= end)
                .map_or(NO_OWNER, |piece| piece.member);
        }
        start = end;
    }
    turn
}

/// Maximal runs of trained tokens with one turn and one owner, where there is either.
fn token_runs(mask: &[bool], turns: &[u32], owners: &[u32]) -> Vec<(Range<u32>, u32, u32)> {
    let mut runs = Vec::new();
    let mut start = 0;
    for token in 1..=mask.len() {
        let goes_on = token < mask.len()
            && mask[token] == mask[start]
            && owners[token] == owners[start]
            && turns[token] == turns[start];
        if !goes_on {
            if mask[start] && (turns[start], owners[start]) != (NO_OWNER, NO_OWNER) {
                runs.push((start as u32..token as u32, turns[start], owners[start]));
            }
            start = token;
        }
    }
    runs
}

/// Both lists of pieces laid over each other: maximal runs of bytes with one turn and one member, where there is any.
fn overlay(turns: &[Piece], pieces: &[Piece]) -> Vec<(Range<usize>, u32, u32)> {
    let mut bounds: Vec<usize> =
        turns.iter().chain(pieces).flat_map(|piece| [piece.start, piece.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let (mut turn, mut piece) = (0, 0);
    let mut runs = Vec::new();
    for pair in bounds.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let at = |list: &[Piece], next: &mut usize| {
            while list.get(*next).is_some_and(|piece| piece.end <= start) {
                *next += 1;
            }
            list.get(*next)
                .filter(|piece| piece.start <= start)
                .map_or(NO_OWNER, |piece| piece.member)
        };
        let here = (at(turns, &mut turn), at(pieces, &mut piece));
        if here != (NO_OWNER, NO_OWNER) {
            runs.push((start..end, here.0, here.1));
        }
    }
    runs
}

fn check(
    sequence: &Sequence,
    episode: f32,
    covers: &[Cover],
    turn_advantages: Option<&[f32]>,
) -> Result<()> {
    let n_bytes = sequence.text.len();
    let wrong = |what: String| Err(Error::input(sequence.place.clone(), what));
    if !episode.is_finite() {
        return wrong(format!("the episode advantage is {episode}; it must be finite"));
    }
    for cover in covers {
        let Range { start, end } = cover.bytes;
        if start > end || end > n_bytes {
            return wrong(format!(
                "a cover has the bytes {start}..{end} of a text of {n_bytes} bytes"
            ));
        }
        if !cover.advantage.is_finite() || !cover.score.is_finite() {
            let Cover { advantage, score, .. } = cover;
            return wrong(format!(
                "the cover at byte {start} has advantage {advantage} and score {score}; both must be finite"
            ));
        }
    }
    if let Some(tokens) = &sequence.tokens {
        let n_ends = tokens.byte_ends.len();
        if n_ends != tokens.mask.len() {
            return wrong(format!(
                "{n_ends} tokens and {} mask entries; they must be as many",
                tokens.mask.len()
            ));
        }
        if n_ends >= NO_OWNER as usize {
            return wrong(format!(
                "{n_ends} tokens in one sequence; at most {} are possible",
                NO_OWNER - 1
            ));
        }
        let last = tokens.byte_ends.last().map_or(n_bytes, |&end| end as usize);
        if last != n_bytes || tokens.byte_ends.windows(2).any(|ends| ends[0] > ends[1]) {
            return wrong(format!(
                "token byte-ends must not fall and must end at {n_bytes}, the length of the text; they end at {last}"
            ));
        }
    }
    if let Some(steps) = turn_advantages {
        if steps.len() != sequence.turns.len() {
            return wrong(format!(
                "{} step advantages for {} turns",
                steps.len(),
                sequence.turns.len()
            ));
        }
        if let Some(bad) = steps.iter().find(|step| !step.is_finite()) {
            return wrong(format!("a step advantage is {bad}; it must be finite"));
        }
        let mut previous = 0;
        for turn in &sequence.turns {
            let Range { start, end } = turn.bytes;
            if start < previous || start > end || end > n_bytes {
                return wrong(format!(
                    "the turn at bytes {start}..{end} overlaps the one before it or leaves the text of {n_bytes} bytes"
                ));
            }
            previous = end;
        }
    }
    Ok(())
}
