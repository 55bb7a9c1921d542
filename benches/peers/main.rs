//! Our side of the table against other libraries: holds one problem at a time and runs an operation on it when told.
//!
//! `benches/peers/run` starts it and talks to it; see `worker.py`. A request is one JSON object on a line of standard
//! input, with the operation in `op`; the answer is one on standard output. Arrays go through files of little-endian
//! numbers. Only the operation itself is on the clock: not its input, not the writing of its result.

mod losses;
mod programs;
#[path = "../../tests/support/task_code.rs"]
mod task_code;
#[path = "../../tests/support/tasks.rs"]
#[allow(dead_code)]
mod tasks;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use hunkwise::Device;
use hunkwise::anchors::{Csr, facility_location};
use hunkwise::backend::cpu::{Cpu, Simd};
use hunkwise::code::{TaskCode, Windows};
use hunkwise::loss::PolicyLossConfig;
use hunkwise::pipeline::{Config, credit};
use hunkwise::rollout::{Batch, ReadOptions, read_files, synthetic};
use hunkwise::similarity::{
    LineVectors, Match, Ragged, SimilarityConfig, matches, occurrences, pair_similarity,
};
use rayon::ThreadPool;
use serde::Deserialize;
use serde_json::{Value, json};

/// What is asked for. `out` is where arrays of the answer go; none when only the time is wanted.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Info {},
    /// The tasks of a source: a dump of rollouts, or a shape of made-up ones such as `made-up:6x32x8x50`.
    Tasks {
        source: String,
    },
    /// Takes a task of a source as the problem.
    Task {
        source: String,
        task: String,
        out: PathBuf,
    },
    /// Takes made-up diffs.
    Synthetic {
        n_diffs: u64,
        seed: u64,
        characters: bool,
        out: PathBuf,
    },
    /// Gives the problem line vectors of this dimension.
    LineVectors {
        dim: usize,
        out: PathBuf,
    },
    Matches {
        eta: f64,
        embedding_weight: f64,
        threads: usize,
        out: Option<PathBuf>,
    },
    Occurrences {
        eta: f64,
        threads: usize,
        out: Option<PathBuf>,
    },
    /// Takes a list of token sequences, from `offsets.u32` and `tokens.u32` in a folder.
    List {
        folder: PathBuf,
    },
    PairSimilarity {
        eta: f64,
        threads: usize,
        out: Option<PathBuf>,
    },
    /// Takes a graph in compressed rows, from `indptr.u64`, `indices.u32` and `weights.f64` in a folder.
    Graph {
        folder: PathBuf,
    },
    FacilityLocation {
        picks: usize,
        threads: usize,
        out: Option<PathBuf>,
    },
    /// The shape of a source; `tasks` keeps these alone.
    Batch {
        source: String,
        tasks: Option<Vec<String>>,
    },
    /// The whole pipeline on the last batch.
    Credit {
        threads: usize,
    },
    /// Takes arrays of a loss from a folder.
    LossArrays {
        folder: PathBuf,
        names: Vec<String>,
    },
    /// A loss of those arrays; `columns` of a row of log-probs, or of logits.
    Loss {
        operation: losses::Operation,
        columns: usize,
        config: PolicyLossConfig,
        threads: usize,
        out: Option<PathBuf>,
    },
}

struct Worker {
    device: Device,
    code: TaskCode,
    windows: Option<Windows>,
    vectors: Option<LineVectors>,
    list: (Vec<u32>, Vec<u32>),
    graph: (Vec<usize>, Vec<u32>, Vec<f64>),
    batch: Batch,
    arrays: losses::Arrays,
    sources: BTreeMap<String, Batch>,
    pools: BTreeMap<usize, ThreadPool>,
}

type Answer = Result<Value, Box<dyn Error>>;

fn main() {
    if !std::env::args().any(|arg| arg == "--serve") {
        // `cargo bench` calls every bench.
        println!("the table against other libraries is made by benches/peers/run");
        return;
    }
    let simd = match std::env::args().skip_while(|arg| arg != "--simd").nth(1).as_deref() {
        Some("scalar") => Simd::Scalar,
        Some("avx2") => Simd::Avx2,
        _ => Simd::detect(),
    };
    let mut worker = Worker {
        device: Device::Cpu(Cpu::with_simd(simd)),
        code: TaskCode::default(),
        windows: None,
        vectors: None,
        list: Default::default(),
        graph: Default::default(),
        batch: Batch::default(),
        arrays: losses::Arrays::default(),
        sources: BTreeMap::new(),
        pools: BTreeMap::new(),
    };
    for line in std::io::stdin().lock().lines() {
        let answer = line
            .map_err(Into::into)
            .and_then(|line| Ok(serde_json::from_str(&line)?))
            .and_then(|request| worker.answer(request))
            .unwrap_or_else(|e| json!({ "error": e.to_string() }));
        println!("{answer}");
        let _ = std::io::stdout().flush();
    }
}

impl Worker {
    fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Info {} => {
                let Device::Cpu(host) = &self.device else { return Err("no host".into()) };
                let simd = format!("{:?}", host.simd());
                Ok(json!({"version": env!("CARGO_PKG_VERSION"), "simd": simd}))
            }
            Request::Tasks { source } => {
                let ids: Vec<&str> =
                    self.rollouts(&source)?.tasks.iter().map(|task| task.id.as_str()).collect();
                Ok(json!({ "tasks": ids }))
            }
            Request::Task { source, task, out } => {
                let found = self.rollouts(&source)?.tasks.iter().find(|of| of.id == task);
                let task = found.ok_or_else(|| format!("{source} has no task `{task}`"))?;
                let code = task_code::code_of(task)?;
                self.take(code, &out)
            }
            Request::Synthetic { n_diffs, seed, characters, out } => {
                let diffs = programs::diffs(n_diffs, seed);
                let code = if characters {
                    programs::as_characters(&diffs)
                } else {
                    programs::as_tokens(&diffs)?
                };
                self.take(code, &out)
            }
            Request::LineVectors { dim, out } => {
                let vectors = LineVectors::hashed(&self.code, dim)?;
                let bytes: Vec<u8> = vectors.as_slice().iter().map(|x| x.cast_unsigned()).collect();
                std::fs::write(out.join("vectors.i8"), bytes)?;
                let n = vectors.len();
                self.vectors = Some(vectors);
                Ok(json!({ "lines": n }))
            }
            Request::Matches { eta, embedding_weight, threads, out } => {
                let config =
                    SimilarityConfig { eta, embedding_weight, ..SimilarityConfig::default() };
                let windows = self.windows.as_ref().ok_or("no problem was taken")?;
                let run =
                    || matches(&self.device, &self.code, windows, self.vectors.as_ref(), &config);
                let (seconds, found) = timed(pool(&mut self.pools, threads)?, run);
                let found = found?;
                write_matches(out.as_deref(), &found)?;
                Ok(json!({"seconds": seconds, "hits": found.len()}))
            }
            Request::Occurrences { eta, threads, out } => {
                let config = SimilarityConfig { eta, ..SimilarityConfig::default() };
                let windows = self.windows.as_ref().ok_or("no problem was taken")?;
                let run = || occurrences(&self.device, &self.code, windows, None, &config);
                let (seconds, found) = timed(pool(&mut self.pools, threads)?, run);
                let found = found?;
                if let Some(out) = out {
                    let items = || found.items.iter();
                    write_u32(&out.join("ends.u32"), found.offsets.iter().map(|&end| end as u32))?;
                    let places =
                        items().flat_map(|o| [o.turn, o.span.root, o.span.start, o.span.len]);
                    write_u32(&out.join("items.u32"), places)?;
                    let similarities: Vec<u8> =
                        items().flat_map(|o| o.similarity.to_le_bytes()).collect();
                    std::fs::write(out.join("similarities.f64"), similarities)?;
                }
                Ok(json!({"seconds": seconds, "hits": found.items.len()}))
            }
            Request::List { folder } => {
                self.list =
                    (read_u32(&folder.join("tokens.u32"))?, read_u32(&folder.join("offsets.u32"))?);
                Ok(json!({"items": self.list.1.len().saturating_sub(1)}))
            }
            Request::PairSimilarity { eta, threads, out } => {
                let items = Ragged { tokens: &self.list.0, offsets: &self.list.1 };
                let run = || pair_similarity(&self.device, items, eta, 4 << 30);
                let (seconds, found) = timed(pool(&mut self.pools, threads)?, run);
                let found = found?;
                write_matches(out.as_deref(), &found)?;
                Ok(json!({"seconds": seconds, "hits": found.len()}))
            }
            Request::Graph { folder } => {
                let offsets = read::<8>(&folder.join("indptr.u64"))?;
                let offsets = offsets.into_iter().map(|x| u64::from_le_bytes(x) as usize).collect();
                let weights = read::<8>(&folder.join("weights.f64"))?;
                let weights = weights.into_iter().map(f64::from_le_bytes).collect();
                self.graph = (offsets, read_u32(&folder.join("indices.u32"))?, weights);
                Ok(json!({"edges": self.graph.1.len()}))
            }
            Request::FacilityLocation { picks, threads, out } => {
                let (offsets, units, weights) = &self.graph;
                let n_units = offsets.len().saturating_sub(1);
                let graph = Csr { offsets, units, weights };
                let run = || facility_location(&self.device, graph, n_units, picks);
                let (seconds, found) = timed(pool(&mut self.pools, threads)?, run);
                let found = found?.candidates;
                if let Some(out) = out {
                    write_u32(&out.join("picks.u32"), found.iter().copied())?;
                }
                Ok(json!({"seconds": seconds, "hits": found.len()}))
            }
            Request::Batch { source, tasks } => {
                let mut batch = self.rollouts(&source)?.clone();
                if let Some(ids) = tasks {
                    batch.tasks.retain(|task| ids.contains(&task.id));
                }
                let rollouts = || batch.tasks.iter().flat_map(|task| &task.trajectories);
                let turns: usize = rollouts().map(|rollout| rollout.turns().count()).sum();
                let answer = json!({
                    "tasks": batch.tasks.len(), "rollouts": rollouts().count(), "turns": turns,
                });
                self.batch = batch;
                Ok(answer)
            }
            Request::Credit { threads } => {
                let run = || credit(&self.device, &self.batch, &Config::default());
                let (seconds, result) = timed(pool(&mut self.pools, threads)?, run);
                let diagnostics = result?.diagnostics;
                let hits = diagnostics.diff.counts.n_groups;
                Ok(json!({"seconds": seconds, "hits": hits, "lines": diagnostics.n_lines}))
            }
            Request::LossArrays { folder, names } => {
                self.arrays = losses::Arrays::load(&folder, &names)?;
                Ok(json!({ "arrays": names }))
            }
            Request::Loss { operation, columns, config, threads, out } => {
                let pool = pool(&mut self.pools, threads)?;
                self.arrays.run(&self.device, pool, operation, columns, &config, out.as_ref())
            }
        }
    }

    fn rollouts(&mut self, source: &str) -> Result<&Batch, Box<dyn Error>> {
        if !self.sources.contains_key(source) {
            let batch = match source.strip_prefix("made-up:") {
                Some(shape) => synthetic(shape.parse()?, 0)?,
                None => read_files(&[source.into()], &ReadOptions::default(), &mut |_| {})?,
            };
            self.sources.insert(source.to_string(), batch);
        }
        Ok(&self.sources[source])
    }

    /// Makes the code the problem, and writes its candidates: `tokens.u32` by `offsets.u32`, `lines.u32` by
    /// `line_ends.u32`, `types.u32`, and their `places.u32` (turn, root, start, lines) by `place_ends.u32`; and the
    /// rollout of each turn, `rollouts.u32`.
    fn take(&mut self, code: TaskCode, out: &Path) -> Answer {
        let windows = Windows::all(&code, 32)?;
        let candidates = || 0..windows.len() as u32;
        let (mut offsets, mut line_ends, mut place_ends) = (vec![0], vec![0], vec![0]);
        let (mut tokens, mut lines, mut places, mut types) = (vec![], vec![], vec![], vec![]);
        for candidate in candidates() {
            let first = windows.first(candidate);
            tokens.extend_from_slice(code.tokens_of(first));
            lines.extend_from_slice(&code.line_ids[code.lines_in(first)]);
            for place in windows.places(candidate) {
                places.extend([
                    code.roots[place.root as usize].turn,
                    place.root,
                    place.start,
                    place.len,
                ]);
            }
            types.push(code.roots[first.root as usize].edit_type as u32);
            offsets.push(tokens.len() as u32);
            line_ends.push(lines.len() as u32);
            place_ends.push(places.len() as u32 / 4);
        }
        let answer = json!({
            "candidates": windows.len(), "places": windows.n_places(), "lines": code.n_lines(), "turns": code.n_turns(),
            "tokens": code.tokens.len(),
        });
        for (name, numbers) in [
            ("offsets", offsets),
            ("line_ends", line_ends),
            ("place_ends", place_ends),
            ("tokens", tokens),
            ("lines", lines),
            ("places", places),
            ("types", types),
        ] {
            write_u32(&out.join(format!("{name}.u32")), numbers.into_iter())?;
        }
        write_u32(&out.join("rollouts.u32"), code.turn_trajectory.iter().copied())?;
        (self.code, self.windows, self.vectors) = (code, Some(windows), None);
        Ok(answer)
    }
}

/// The pool of so many threads, kept for the next call.
fn pool(
    pools: &mut BTreeMap<usize, ThreadPool>,
    threads: usize,
) -> Result<&ThreadPool, rayon::ThreadPoolBuildError> {
    Ok(match pools.entry(threads) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            free.insert(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?)
        }
    })
}

fn timed<T: Send>(pool: &ThreadPool, run: impl FnOnce() -> T + Send) -> (f64, T) {
    pool.install(|| {
        let began = Instant::now();
        let result = run();
        (began.elapsed().as_secs_f64(), result)
    })
}

fn write_matches(out: Option<&Path>, found: &[Match]) -> std::io::Result<()> {
    out.map_or(Ok(()), |out| {
        write_u32(&out.join("matches.u32"), found.iter().flat_map(|m| [m.a, m.b, m.lcs]))
    })
}

fn write_u32(path: &Path, numbers: impl Iterator<Item = u32>) -> std::io::Result<()> {
    std::fs::write(path, numbers.flat_map(u32::to_le_bytes).collect::<Vec<u8>>())
}

/// Numbers of N bytes each.
fn read<const N: usize>(path: &Path) -> std::io::Result<Vec<[u8; N]>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes.as_chunks::<N>().0.to_vec())
}

fn read_u32(path: &Path) -> std::io::Result<Vec<u32>> {
    Ok(read::<4>(path)?.into_iter().map(u32::from_le_bytes).collect())
}
