//! Blocks, ratios and groups of [`crate::opcodes`], as loops over all pairs of places and as lists.

use std::collections::BTreeSet;

use crate::opcodes::{Block, Root, Settings, groupability};

/// The matching blocks of two sequences, neighbours joined.
pub fn blocks<T: PartialEq>(a: &[T], b: &[T], autojunk: bool) -> Vec<Block> {
    let is_popular: Vec<bool> = b
        .iter()
        .map(|one| {
            let count = b.iter().filter(|other| *other == one).count();
            autojunk && b.len() >= 200 && count > b.len() / 100 + 1
        })
        .collect();
    let mut found = Vec::new();
    between(a, b, &is_popular, (0, a.len()), (0, b.len()), &mut found);
    let mut joined: Vec<Block> = Vec::new();
    for block in found {
        match joined.last_mut() {
            Some(last) if last.a + last.size == block.a && last.b + last.size == block.b => {
                last.size += block.size;
            }
            _ => joined.push(block),
        }
    }
    joined
}

fn between<T: PartialEq>(
    a: &[T],
    b: &[T],
    is_popular: &[bool],
    in_a: (usize, usize),
    in_b: (usize, usize),
    found: &mut Vec<Block>,
) {
    let mut best = Block { a: in_a.0, b: in_b.0, size: 0 };
    for i in in_a.0..in_a.1 {
        for j in in_b.0..in_b.1 {
            let mut size = 0;
            while i + size < in_a.1
                && j + size < in_b.1
                && a[i + size] == b[j + size]
                && !is_popular[j + size]
            {
                size += 1;
            }
            if size > best.size {
                best = Block { a: i, b: j, size };
            }
        }
    }
    while best.a > in_a.0 && best.b > in_b.0 && a[best.a - 1] == b[best.b - 1] {
        best = Block { a: best.a - 1, b: best.b - 1, size: best.size + 1 };
    }
    while best.a + best.size < in_a.1
        && best.b + best.size < in_b.1
        && a[best.a + best.size] == b[best.b + best.size]
    {
        best.size += 1;
    }
    if best.size == 0 {
        return;
    }
    between(a, b, is_popular, (in_a.0, best.a), (in_b.0, best.b), found);
    found.push(best);
    let after = (best.a + best.size, best.b + best.size);
    between(a, b, is_popular, (after.0, in_a.1), (after.1, in_b.1), found);
}

/// Twice the symbols in blocks over all symbols; 1 for two empty sequences.
pub fn ratio<T: PartialEq>(a: &[T], b: &[T], autojunk: bool) -> f64 {
    let matched: usize = blocks(a, b, autojunk).iter().map(|block| block.size).sum();
    let length = a.len() + b.len();
    if length == 0 { 1.0 } else { 2.0 * matched as f64 / length as f64 }
}

/// The ratio of two texts by characters; 1 for equal ones, 0 where one is empty.
pub fn text_ratio(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    if a.is_empty() || b.is_empty() {
        return 0.0;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    ratio(&a, &b, true)
}

/// An occurrence: number of the root, its lines from and to.
pub type Piece = (usize, usize, usize);

/// One anchor after the other with the occurrences of each, for all pairs of roots.
pub fn anchors(roots: &[Root], settings: &Settings) -> Vec<Vec<Piece>> {
    let used: Vec<usize> = (0..roots.len()).filter(|&i| !roots[i].lines.is_empty()).collect();
    if used.len() < 2 {
        return Vec::new();
    }
    let text = |(root, start, end): Piece| roots[root].lines[start..end].join("\n");
    let mut buckets: Vec<(String, Vec<Piece>)> = Vec::new();
    let mut add = |key: String, piece: Piece| {
        if text(piece).trim().is_empty() {
            return;
        }
        match buckets.iter_mut().find(|(other, _)| *other == key) {
            Some((_, pieces)) => pieces.push(piece),
            None => buckets.push((key, vec![piece])),
        }
    };
    for &i in &used {
        let whole = (i, 0, roots[i].lines.len());
        add(format!("{} full {}", roots[i].edit_type, text(whole)), whole);
    }
    let mut types: Vec<&str> = Vec::new();
    for &i in &used {
        if !types.contains(&roots[i].edit_type.as_str()) {
            types.push(&roots[i].edit_type);
        }
    }
    for edit_type in types {
        let of_type: Vec<usize> =
            used.iter().copied().filter(|&i| roots[i].edit_type == edit_type).collect();
        for (at, &i) in of_type.iter().enumerate() {
            for &j in &of_type[at + 1..] {
                for (a, b) in matched(i, j, &roots[i].lines, &roots[j].lines, settings) {
                    let (of_a, of_b) = (text(a), text(b));
                    let longer =
                        if of_a.chars().count() >= of_b.chars().count() { of_a } else { of_b };
                    add(format!("{edit_type} block {longer}"), a);
                    add(format!("{edit_type} block {longer}"), b);
                }
            }
        }
    }
    let by_row = |pieces: &[Piece]| {
        let mut kept: Vec<Piece> = Vec::new();
        for &piece in pieces {
            let size = |piece: Piece| piece.2 - piece.1;
            match kept.iter_mut().find(|one| roots[one.0].row == roots[piece.0].row) {
                Some(one) if size(piece) > size(*one) => *one = piece,
                Some(_) => {}
                None => kept.push(piece),
            }
        }
        kept
    };
    let mut buckets: Vec<Vec<Piece>> =
        buckets.into_iter().map(|(_, pieces)| by_row(&pieces)).collect();
    if settings.sim_thresh < 1.0 && buckets.len() > 1 {
        buckets.sort_by_key(|pieces| std::cmp::Reverse(pieces.len()));
        let mut survivors: Vec<(String, Vec<Piece>)> = Vec::new();
        for pieces in buckets {
            let first = text(pieces[0]);
            let joins = |(other, _): &&mut (String, Vec<Piece>)| {
                text_ratio(&first, other) >= settings.sim_thresh
            };
            match survivors.iter_mut().find(joins) {
                Some((_, all)) => all.extend(pieces),
                None => survivors.push((first, pieces)),
            }
        }
        buckets = survivors.into_iter().map(|(_, pieces)| by_row(&pieces)).collect();
    }
    let mean = |pieces: &[Piece]| {
        pieces.iter().map(|piece| (piece.2 - piece.1) as f64).sum::<f64>() / pieces.len() as f64
    };
    let candidates: Vec<(Vec<Piece>, f64)> = buckets
        .into_iter()
        .filter(|pieces| pieces.len() > 1)
        .map(|pieces| {
            let gs = groupability(mean(&pieces), pieces.len(), settings);
            (pieces, gs)
        })
        .filter(|(_, gs)| *gs > 0.0)
        .collect();
    let selected = select(&candidates, settings.max_anchors);
    let mut of_roots: Vec<usize> = Vec::new();
    for &anchor in &selected {
        for piece in &candidates[anchor].0 {
            if !of_roots.contains(&piece.0) {
                of_roots.push(piece.0);
            }
        }
    }
    let mut kept: Vec<Vec<Piece>> = vec![Vec::new(); selected.len()];
    for root in of_roots {
        let mut here: Vec<(usize, Piece)> = Vec::new();
        for (at, &anchor) in selected.iter().enumerate() {
            let of_root = candidates[anchor].0.iter().filter(|piece| piece.0 == root);
            here.extend(of_root.map(|&piece| (at, piece)));
        }
        here.sort_by(|(x, one), (y, other)| {
            let gs = |at: usize| candidates[selected[at]].1;
            let size = |piece: &Piece| piece.2 - piece.1;
            gs(*y).total_cmp(&gs(*x)).then(size(other).cmp(&size(one)))
        });
        let mut taken = BTreeSet::new();
        for (at, piece) in here {
            if (piece.1..piece.2).all(|line| !taken.contains(&line)) {
                taken.extend(piece.1..piece.2);
                kept[at].push(piece);
            }
        }
    }
    kept.iter().map(|pieces| by_row(pieces)).filter(|pieces| pieces.len() > 1).collect()
}

fn matched(
    i: usize,
    j: usize,
    a: &[String],
    b: &[String],
    settings: &Settings,
) -> Vec<(Piece, Piece)> {
    let mut matched = Vec::new();
    let is_long = |size: usize| size as i64 >= settings.min_block_lines;
    let (mut in_a, mut in_b) = (0, 0);
    let end = Block { a: a.len(), b: b.len(), size: 0 };
    for block in blocks(a, b, false).into_iter().chain([end]) {
        let (gap_a, gap_b) = (block.a - in_a, block.b - in_b);
        let is_replaced = gap_a > 0 && gap_b > 0 && (is_long(gap_a) || is_long(gap_b));
        let texts = (a[in_a..block.a].join("\n"), b[in_b..block.b].join("\n"));
        let is_blank = texts.0.trim().is_empty() || texts.1.trim().is_empty();
        if is_replaced
            && !is_blank
            && (texts.0 == texts.1 || text_ratio(&texts.0, &texts.1) >= settings.sim_thresh)
        {
            matched.push(((i, in_a, block.a), (j, in_b, block.b)));
        }
        (in_a, in_b) = (block.a + block.size, block.b + block.size);
        if block.size > 0 && is_long(block.size) {
            matched.push(((i, block.a, in_a), (j, block.b, in_b)));
        }
    }
    matched
}

fn select(candidates: &[(Vec<Piece>, f64)], most: i64) -> Vec<usize> {
    let mut selected: Vec<usize> = Vec::new();
    while most <= 0 || (selected.len() as i64) < most {
        let (mut best, mut best_gain) = (None, 0.0);
        for (at, (pieces, gs)) in candidates.iter().enumerate() {
            let mut gain = 0.0;
            for piece in pieces {
                let covered = selected
                    .iter()
                    .filter(|&&other| candidates[other].0.contains(piece))
                    .fold(0.0_f64, |most, &other| most.max(candidates[other].1));
                gain += covered.max(*gs) - covered;
            }
            if !selected.contains(&at) && gain > best_gain + 1e-12 {
                (best, best_gain) = (Some(at), gain);
            }
        }
        match best {
            Some(best) if best_gain > 1e-12 => selected.push(best),
            _ => break,
        }
    }
    selected
}
