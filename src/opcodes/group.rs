//! Buckets of equal texts, buckets that join others, the greedy choice, the cut.

use rustc_hash::{FxHashMap, FxHashSet};

use super::matcher::{Matcher, Scratch, Tag};
use super::similar::Judge;
use super::texts::Texts;
use super::{Anchor, Form, Grouped, Occurrence, Root, Settings};

/// Gains closer than this are equal, and a gain below it is none.
const LEAST_GAIN: f64 = 1e-12;
/// Characters of a preview.
const PREVIEW: usize = 120;

/// A root with lines, ready to be compared.
struct View<'a> {
    root: &'a Root,
    /// Its number in what was given.
    number: usize,
    /// Number of its edit type.
    edit_type: usize,
    lines: Vec<u32>,
    matcher: Matcher,
    /// For each line its first character in the source.
    starts: Vec<i64>,
}

/// Lines of a view.
#[derive(Debug, Clone, Copy)]
struct Found {
    view: usize,
    lines: (usize, usize),
    text: u32,
}

impl Found {
    fn size(&self) -> usize {
        self.lines.1 - self.lines.0
    }
}

/// At most one occurrence of each row: the longest, the first among equals, at the place of the row's first.
#[derive(Default)]
struct Bucket {
    found: Vec<Found>,
    of_row: FxHashMap<usize, usize>,
}

impl Bucket {
    fn add(&mut self, row: usize, found: Found) {
        match self.of_row.get(&row) {
            None => {
                self.of_row.insert(row, self.found.len());
                self.found.push(found);
            }
            Some(&at) if found.size() > self.found[at].size() => self.found[at] = found,
            Some(_) => {}
        }
    }
}

struct Candidate {
    found: Vec<Found>,
    gs: f64,
    preview: String,
}

/// Groupability of `count` occurrences of `size` lines on average.
pub fn groupability(size: f64, count: usize, settings: &Settings) -> f64 {
    let size = size.max(0.0);
    let scale = settings.phi_s0;
    let phi = match settings.phi {
        Form::Saturating => 1.0 - (-size / scale.max(1e-6)).exp(),
        Form::Log => (size.ln_1p() / scale.ln_1p()).min(1.0),
        Form::Linear => (size / scale.max(1e-6)).min(1.0),
    };
    if count <= 1 {
        return phi * 0.0;
    }
    let (above, scale) = ((count - 1) as f64, settings.psi_count_ref);
    let psi = match settings.psi {
        Form::Saturating => 1.0 - (-above / scale.max(1e-6)).exp(),
        Form::Log => ((count as f64).ln() / scale.max(2.0).ln()).min(1.0),
        Form::Linear => (above / (scale - 1.0).max(1e-6)).min(1.0),
    };
    phi * psi
}

fn of_found(found: &[Found], settings: &Settings) -> (f64, f64) {
    let mean = found.iter().map(Found::size).sum::<usize>() as f64 / found.len() as f64;
    (mean, groupability(mean, found.len(), settings))
}

/// The anchors of a task.
pub(super) fn grouped(roots: &[Root], settings: &Settings) -> Grouped {
    let views = views(roots);
    if views.len() < 2 {
        return Grouped::default();
    }
    let mut texts = Texts::default();
    let mut judge = Judge::default();
    let buckets = buckets(&views, &mut texts, &mut judge, settings);
    let merged = merge(buckets, &views, &texts, &mut judge, settings.sim_thresh);
    let candidates: Vec<Candidate> = merged
        .into_iter()
        .filter(|bucket| bucket.found.len() > 1)
        .map(|bucket| {
            let (_, gs) = of_found(&bucket.found, settings);
            let preview = text_of(&views, &bucket.found[0]);
            let preview = preview.chars().take(PREVIEW).collect::<String>().replace('\n', "\\n");
            Candidate { found: bucket.found, gs, preview }
        })
        .filter(|candidate| candidate.gs > 0.0)
        .collect();
    let selected = select(&candidates, settings.max_anchors);
    let kept = cut(&views, &candidates, &selected);
    let mut anchors = Vec::new();
    for (&candidate, bucket) in selected.iter().zip(kept) {
        if bucket.found.len() <= 1 {
            continue;
        }
        let (mean_size, gs) = of_found(&bucket.found, settings);
        if gs > 0.0 {
            anchors.push(Anchor {
                occurrences: bucket.found.iter().map(|found| place(&views, found)).collect(),
                gs,
                mean_size,
                preview: candidates[candidate].preview.clone(),
            });
        }
    }
    Grouped { anchors, n_candidates: candidates.len(), n_selected: selected.len() }
}

fn views(roots: &[Root]) -> Vec<View<'_>> {
    let mut of_lines: FxHashMap<&str, u32> = FxHashMap::default();
    let mut types: Vec<&str> = Vec::new();
    let mut views = Vec::new();
    for (number, root) in roots.iter().enumerate().filter(|(_, root)| !root.lines.is_empty()) {
        let edit_type = types.iter().position(|one| *one == root.edit_type).unwrap_or_else(|| {
            types.push(&root.edit_type);
            types.len() - 1
        });
        let lines: Vec<u32> = root
            .lines
            .iter()
            .map(|line| {
                let n = of_lines.len() as u32;
                *of_lines.entry(line).or_insert(n)
            })
            .collect();
        let matcher = Matcher::new(&lines, false);
        views.push(View { root, number, edit_type, lines, matcher, starts: starts(root) });
    }
    views
}

/// The first character of each line: where it is next found in the source, or where the last one ended.
fn starts(root: &Root) -> Vec<i64> {
    let source = root.source.as_str();
    let mut bytes: Vec<usize> = source.char_indices().map(|(at, _)| at).collect();
    bytes.push(source.len());
    let mut at = 0;
    root.lines
        .iter()
        .map(|line| {
            let found =
                bytes.get(at).and_then(|&from| Some(from + source[from..].find(line.as_str())?));
            let start = found.map_or(at, |byte| bytes.partition_point(|&b| b < byte));
            at = start + line.chars().count();
            start as i64
        })
        .collect()
}

fn text_of(views: &[View<'_>], found: &Found) -> String {
    views[found.view].root.lines[found.lines.0..found.lines.1].join("\n")
}

/// Pairs (i, j) with i < j: all of them, or as many as the budget takes: the first few with everyone, then strides.
fn pairs(n: usize, most: i64) -> Vec<(usize, usize)> {
    if n < 2 || most == 0 {
        return Vec::new();
    }
    let all = || (0..n).flat_map(move |i| (i + 1..n).map(move |j| (i, j)));
    let Ok(most) = usize::try_from(most) else { return all().collect() };
    if n * (n - 1) / 2 <= most {
        return all().collect();
    }
    let n_hubs = ((most as f64).sqrt().ceil() as usize).min(n - 1).max(1);
    let hubs = (0..n_hubs).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let stride = (n / 4).max(1);
    let strides = (0..n).flat_map(|i| (i + stride..n).step_by(stride).map(move |j| (i, j)));
    hubs.chain(strides).take(most).collect()
}

/// Buckets in the order in which their first text was found.
fn buckets(
    views: &[View<'_>],
    texts: &mut Texts,
    judge: &mut Judge,
    settings: &Settings,
) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut of_key: FxHashMap<(usize, bool, u32), usize> = FxHashMap::default();
    let mut add = |texts: &Texts, is_block: bool, key: u32, found: Found| {
        if texts.texts[found.text as usize].is_blank {
            return;
        }
        let view = &views[found.view];
        let bucket = *of_key.entry((view.edit_type, is_block, key)).or_insert_with(|| {
            buckets.push(Bucket::default());
            buckets.len() - 1
        });
        buckets[bucket].add(view.root.row, found);
    };
    let mut spans = Spans::default();
    for (at, view) in views.iter().enumerate() {
        let found = spans.found(views, at, (0, view.lines.len()), texts);
        add(texts, false, found.text, found);
    }
    let n_types = views.iter().map(|view| view.edit_type + 1).max().unwrap_or(0);
    let mut scratch = Scratch::default();
    let mut known: FxHashMap<(u32, u32), bool> = FxHashMap::default();
    for edit_type in 0..n_types {
        let group: Vec<usize> =
            (0..views.len()).filter(|&at| views[at].edit_type == edit_type).collect();
        for (i, j) in pairs(group.len(), settings.max_pairs) {
            let (i, j) = (group[i], group[j]);
            for opcode in views[j].matcher.opcodes(&views[i].lines, &mut scratch) {
                let sizes = (opcode.a.1 - opcode.a.0, opcode.b.1 - opcode.b.0);
                let is_long = |size: usize| size as i64 >= settings.min_block_lines;
                let is_taken = match opcode.tag {
                    Tag::Equal => is_long(sizes.0),
                    Tag::Replace => is_long(sizes.0) || is_long(sizes.1),
                    Tag::Delete | Tag::Insert => false,
                };
                if !is_taken {
                    continue;
                }
                let a = spans.found(views, i, opcode.a, texts);
                let b = spans.found(views, j, opcode.b, texts);
                let of = |text: u32| &texts.texts[text as usize];
                if opcode.tag == Tag::Replace && a.text != b.text {
                    if of(a.text).is_blank || of(b.text).is_blank {
                        continue;
                    }
                    let is_similar = *known.entry((a.text, b.text)).or_insert_with(|| {
                        judge.is_similar(texts, a.text, b.text, settings.sim_thresh)
                    });
                    if !is_similar {
                        continue;
                    }
                }
                let is_a = of(a.text).symbols.len() >= of(b.text).symbols.len();
                let key = if is_a { a.text } else { b.text };
                add(texts, true, key, a);
                add(texts, true, key, b);
            }
        }
    }
    buckets
}

/// Texts of spans by their lines, so that a text is put together once.
#[derive(Default)]
struct Spans {
    of_lines: FxHashMap<Vec<u32>, u32>,
}

impl Spans {
    fn found(
        &mut self,
        views: &[View<'_>],
        view: usize,
        lines: (usize, usize),
        texts: &mut Texts,
    ) -> Found {
        let of_view = &views[view].lines[lines.0..lines.1];
        let text = match self.of_lines.get(of_view) {
            Some(&text) => text,
            None => {
                let text = texts.number(&views[view].root.lines[lines.0..lines.1].join("\n"));
                self.of_lines.insert(of_view.to_vec(), text);
                text
            }
        };
        Found { view, lines, text }
    }
}

/// The largest bucket first, each joins the first survivor whose first text is similar to its own, or survives.
fn merge(
    buckets: Vec<Bucket>,
    views: &[View<'_>],
    texts: &Texts,
    judge: &mut Judge,
    sim_thresh: f64,
) -> Vec<Bucket> {
    if sim_thresh >= 1.0 || buckets.len() <= 1 {
        return buckets;
    }
    let mut order: Vec<usize> = (0..buckets.len()).collect();
    order.sort_by_key(|&bucket| std::cmp::Reverse(buckets[bucket].found.len()));
    let mut survivors: Vec<(u32, Bucket)> = Vec::new();
    let mut buckets: Vec<Option<Bucket>> = buckets.into_iter().map(Some).collect();
    for at in order {
        let Some(bucket) = buckets[at].take() else { continue };
        let text = bucket.found[0].text;
        let found = survivors
            .iter_mut()
            .find(|(first, _)| judge.is_similar(texts, text, *first, sim_thresh));
        match found {
            Some((_, survivor)) => {
                for one in bucket.found {
                    survivor.add(views[one.view].root.row, one);
                }
            }
            None => survivors.push((text, bucket)),
        }
    }
    survivors.into_iter().map(|(_, bucket)| bucket).collect()
}

/// Greedy choice of candidates by what they add to the sum over occurrences of the best groupability; 0 or less for `most`
/// takes all that add something.
fn select(candidates: &[Candidate], most: i64) -> Vec<usize> {
    let most = usize::try_from(most).ok().filter(|&most| most > 0).unwrap_or(candidates.len());
    let mut units: FxHashMap<(usize, (usize, usize)), usize> = FxHashMap::default();
    let mut with_unit: Vec<Vec<usize>> = Vec::new();
    let of_candidate: Vec<Vec<usize>> = candidates
        .iter()
        .enumerate()
        .map(|(candidate, one)| {
            let number = |found: &Found| {
                let unit = *units.entry((found.view, found.lines)).or_insert_with(|| {
                    with_unit.push(Vec::new());
                    with_unit.len() - 1
                });
                with_unit[unit].push(candidate);
                unit
            };
            one.found.iter().map(number).collect()
        })
        .collect();
    let mut covered = vec![0.0_f64; with_unit.len()];
    let gain = |candidate: usize, covered: &[f64]| {
        let gs = candidates[candidate].gs;
        of_candidate[candidate]
            .iter()
            .fold(0.0, |sum, &unit| sum + (covered[unit].max(gs) - covered[unit]))
    };
    let mut gains: Vec<f64> = (0..candidates.len()).map(|one| gain(one, &covered)).collect();
    let mut is_selected = vec![false; candidates.len()];
    let mut selected = Vec::new();
    while selected.len() < most {
        let (mut best, mut best_gain) = (None, 0.0);
        for candidate in 0..candidates.len() {
            if !is_selected[candidate] && gains[candidate] > best_gain + LEAST_GAIN {
                (best, best_gain) = (Some(candidate), gains[candidate]);
            }
        }
        let Some(best) = best.filter(|_| best_gain > LEAST_GAIN) else { break };
        selected.push(best);
        is_selected[best] = true;
        let mut changed = FxHashSet::default();
        for &unit in &of_candidate[best] {
            if candidates[best].gs > covered[unit] {
                covered[unit] = candidates[best].gs;
                changed.extend(&with_unit[unit]);
            }
        }
        for candidate in changed {
            gains[candidate] = gain(candidate, &covered);
        }
    }
    selected
}

/// Of each root the occurrences that do not overlap: higher groupability first, then longer.
fn cut(views: &[View<'_>], candidates: &[Candidate], selected: &[usize]) -> Vec<Bucket> {
    let mut of_root: FxHashMap<usize, usize> = FxHashMap::default();
    let mut roots: Vec<Vec<(usize, Found)>> = Vec::new();
    for (anchor, &candidate) in selected.iter().enumerate() {
        for &found in &candidates[candidate].found {
            let root = *of_root.entry(found.view).or_insert_with(|| {
                roots.push(Vec::new());
                roots.len() - 1
            });
            roots[root].push((anchor, found));
        }
    }
    let mut kept: Vec<Bucket> = selected.iter().map(|_| Bucket::default()).collect();
    for mut found in roots {
        let gs = |anchor: usize| candidates[selected[anchor]].gs;
        found.sort_by(|(x, one), (y, other)| {
            gs(*y).total_cmp(&gs(*x)).then(other.size().cmp(&one.size()))
        });
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (anchor, one) in found {
            let (start, end) = one.lines;
            if taken.iter().all(|&(from, to)| end <= from || start >= to) {
                taken.push(one.lines);
                kept[anchor].add(views[one.view].root.row, one);
            }
        }
    }
    kept
}

/// Characters and tokens of an occurrence, in proportion to those of its root.
fn place(views: &[View<'_>], found: &Found) -> Occurrence {
    let view = &views[found.view];
    let root = view.root;
    let (start, end) = found.lines;
    let first = view.starts[start];
    let last = match view.starts.get(end) {
        Some(&next) => next,
        None => first + text_of(views, found).chars().count() as i64,
    };
    let n_chars = (root.chars.1 - root.chars.0).max(1) as f64;
    let n_tokens = (root.tokens.1 - root.tokens.0).max(1) as f64;
    let in_tokens = |at: i64| (at as f64 / n_chars * n_tokens) as i64;
    let from = root.tokens.0 + in_tokens(first);
    let to = root.tokens.0 + in_tokens(last).max(in_tokens(first) + 1);
    Occurrence {
        root: view.number,
        lines: found.lines,
        chars: (root.chars.0 + first, root.chars.0 + last),
        tokens: (from, root.tokens.1.min(to.max(from + 1))),
    }
}
