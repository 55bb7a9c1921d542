//! How long each kernel takes on a CUDA device, copies left out: a row for each kernel of each operation, the least of
//! several runs. Results are held to the host's first.
//!
//! `cargo bench --bench kernels`; `--small` for small shapes; `--emulate` (feature `emulate`) runs the kernels on the host, which
//! shows that this works and nothing of time. Without a device it says so and ends well, unless
//! `HUNKWISE_REQUIRE_CUDA=1`.

#[path = "../tests/support/losses.rs"]
#[allow(dead_code)]
mod losses;
#[path = "../tests/support/tasks.rs"]
#[allow(dead_code)]
mod tasks;

use std::collections::BTreeMap;

use half::bf16;
use hunkwise::backend::cuda::Cuda;
use hunkwise::code::Windows;
use hunkwise::loss::*;
use hunkwise::similarity::{Ragged, SimilarityConfig, occurrences, pair_similarity};
use hunkwise::{Device, Result};
use losses::Made;
use tasks::{Random, Shape, random_task};

const RUNS: usize = 5;

/// Prints the kernels of `run`, the least time of each over some runs; `n_bytes` are those that the whole must move.
fn table(
    cuda: &Cuda,
    name: &str,
    n_bytes: Option<f64>,
    mut run: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut least: BTreeMap<usize, (&str, f64)> = BTreeMap::new();
    for _ in 0..=RUNS {
        let (result, times) = cuda.kernel_times(&mut run)?;
        result?;
        for (i, time) in times.into_iter().enumerate() {
            let known = least.entry(i).or_insert((time.kernel, time.seconds));
            known.1 = known.1.min(time.seconds);
        }
    }
    let mut by_kernel: Vec<(&str, usize, f64)> = vec![];
    for &(kernel, seconds) in least.values() {
        match by_kernel.iter_mut().find(|known| known.0 == kernel) {
            Some(known) => {
                known.1 += 1;
                known.2 += seconds;
            }
            None => by_kernel.push((kernel, 1, seconds)),
        }
    }
    for (kernel, n, seconds) in &by_kernel {
        println!("| {name} | `{kernel}` | {n} | {:.4} | |", seconds * 1e3);
    }
    let all: f64 = by_kernel.iter().map(|of_kernel| of_kernel.2).sum();
    let rate = n_bytes.map_or(String::new(), |n| format!("{:.0} GB/s", n / all / 1e9));
    println!("| {name} | all | {} | {:.4} | {rate} |", least.len(), all * 1e3);
    Ok(())
}

fn policy_loss_rows(device: &Device, cuda: &Cuda, n_rows: usize, n_columns: usize) -> Result<()> {
    let mut made = Made::new(1, &vec![n_columns; n_rows], 0.05);
    made.has_rollout = false;
    made.has_entropy = false;
    let config = PolicyLossConfig { beta: 0.01, ..PolicyLossConfig::dapo() };
    let batch = PolicyBatch { layout: Layout::Padded { n_rows, n_columns }, ..made.batch() };
    let run = |device: &Device, grad: &mut [f32]| {
        let outputs =
            PolicyOutputs { grad_log_prob: Some(FloatsMut::F32(grad)), ..Default::default() };
        policy_loss(device, &batch, &config, Upstream::Loss(1.0), outputs)
    };
    let mut grad = vec![0.0; made.len()];
    let (ours, host) = (run(device, &mut grad)?.loss(), run(&Device::cpu(), &mut grad)?.loss());
    assert!((ours - host).abs() <= 1e-5 * host.abs().max(1.0), "{ours}, on the host {host}");
    // Log-probs, old, reference, advantages, gradient; the mask twice.
    let n_bytes = made.len() as f64 * (5.0 * 4.0 + 2.0);
    table(cuda, &format!("policy_loss, {n_rows} x {n_columns} f32"), Some(n_bytes), || {
        run(device, &mut grad).map(|_| ())
    })
}

fn logits(device: &Device, cuda: &Cuda, n: usize, n_vocab: usize) -> Result<()> {
    let mut random = losses::Random(3);
    // Rows repeat: what they hold does not matter, and 8192 rows would take minutes to draw.
    let row: Vec<bf16> = (0..n_vocab).map(|_| bf16::from_f32(random.between(-8.0, 8.0))).collect();
    let mut logits: Vec<bf16> = vec![bf16::ZERO; n * n_vocab];
    logits.chunks_exact_mut(n_vocab).for_each(|to| to.copy_from_slice(&row));
    let targets: Vec<i64> = (0..n).map(|_| random.below(n_vocab) as i64).collect();
    let rows = LogitsRows {
        targets: &targets,
        n_columns: n_vocab,
        n_vocab,
        temperature: Temperature::One(1.0),
    };
    let (mut log_prob, mut entropy) = (vec![0.0; n], vec![0.0; n]);
    let one_pass = (n * n_vocab) as f64 * 2.0;
    table(cuda, &format!("token_logprob, {n} x {n_vocab} bf16"), Some(one_pass), || {
        let logits = Floats::Bf16(&logits);
        token_logprob(device, logits, &rows, None, &mut log_prob, Some(&mut entropy))
    })?;
    let mut of_host = [0.0];
    let first = LogitsRows { targets: &targets[..1], ..rows };
    token_logprob(&Device::cpu(), Floats::Bf16(&row), &first, None, &mut of_host, None)?;
    assert!((of_host[0] - log_prob[0]).abs() < 1e-4, "{of_host:?}, {}", log_prob[0]);

    let (old, mask) = (log_prob.clone(), vec![true; n]);
    let episode = vec![1.0; n];
    let offsets: Vec<usize> = (0..=n).collect();
    for config in [PolicyLossConfig::dapo(), PolicyLossConfig::gspo()] {
        let batch = LogitsBatch {
            rows,
            old: Some(Floats::F32(&old)),
            reference: None,
            rollout: None,
            mask: &mask,
            advantages: Advantages::Rows(&episode),
            layout: Layout::Packed { offsets: &offsets },
            denominator: None,
        };
        let level = format!("{:?} ratio", config.ratio);
        let name = format!("logits_loss in place, {level}, {n} x {n_vocab} bf16");
        table(cuda, &name, Some(2.0 * one_pass), || {
            // The gradient is small and finite: logits of the next run.
            let over = Logits::Overwrite(FloatsMut::Bf16(&mut logits));
            logits_loss(device, over, &batch, &config, Upstream::Loss(1.0)).map(|_| ())
        })?;
    }
    Ok(())
}

fn head(device: &Device, cuda: &Cuda, n: usize, n_hidden: usize, n_vocab: usize) -> Result<()> {
    let mut random = losses::Random(4);
    let mut draw = |n: usize| -> Vec<bf16> {
        let some: Vec<bf16> =
            (0..4096).map(|_| bf16::from_f32(random.between(-0.05, 0.05))).collect();
        (0..n).map(|i| some[i * 7 % some.len()]).collect()
    };
    let (hidden, weight) = (draw(n * n_hidden), draw(n_vocab * n_hidden));
    let targets: Vec<i64> = (0..n).map(|i| (i * 31 % n_vocab) as i64).collect();
    let batch = LogitsBatch {
        rows: LogitsRows {
            targets: &targets,
            n_columns: n_vocab,
            n_vocab,
            temperature: Temperature::One(1.0),
        },
        old: None,
        reference: None,
        rollout: None,
        mask: &vec![true; n],
        advantages: Advantages::Rows(&[1.0]),
        layout: Layout::Padded { n_rows: 1, n_columns: n },
        denominator: None,
    };
    let config = PolicyLossConfig::dapo();
    let (mut by_hidden, mut by_weight) = (vec![bf16::ZERO; hidden.len()], vec![0.0; weight.len()]);
    table(cuda, &format!("linear_loss, {n} x {n_hidden} x {n_vocab} bf16"), None, || {
        let gradients = LinearGradients {
            hidden: Some(FloatsMut::Bf16(&mut by_hidden)),
            weight: Some(&mut by_weight),
        };
        let (hidden, weight) = (Floats::Bf16(&hidden), Floats::Bf16(&weight));
        linear_loss(device, hidden, weight, &batch, &config, Upstream::Loss(1.0), gradients)
            .map(|_| ())
    })
}

fn similarity(device: &Device, cuda: &Cuda, n_turns: u64, n_lines: u64) -> Result<()> {
    let shape = Shape {
        n_turns,
        max_roots_per_turn: 2,
        max_root_lines: n_lines,
        n_lines: n_lines * 2 / 3 + 1,
        max_line_tokens: 14,
        n_symbols: 150,
        n_types: 1,
    };
    let code = random_task(&mut Random(2), shape);
    let windows = Windows::all(&code, 32)?;
    let config = SimilarityConfig::default();
    let host = occurrences(&Device::cpu(), &code, &windows, None, &config)?;
    assert_eq!(occurrences(device, &code, &windows, None, &config)?, host);
    let n = windows.len();
    table(cuda, &format!("window_similarity, {n} windows of {n_turns} turns"), None, || {
        occurrences(device, &code, &windows, None, &config).map(|_| ())
    })?;
    let mut offsets = vec![0];
    let mut tokens = vec![];
    for candidate in 0..n {
        tokens.extend_from_slice(code.tokens_of(windows.first(candidate as u32)));
        offsets.push(tokens.len() as u32);
    }
    let list = Ragged { tokens: &tokens, offsets: &offsets };
    table(cuda, &format!("pair_similarity, the same {n} as lists"), None, || {
        pair_similarity(device, list, 0.8, 4 << 30).map(|_| ())
    })
}

fn device(emulated: bool) -> Result<Cuda> {
    #[cfg(feature = "emulate")]
    if emulated {
        return Ok(Cuda::emulated(1));
    }
    #[cfg(not(feature = "emulate"))]
    assert!(!emulated, "`--emulate` needs the feature `emulate`");
    Cuda::new(0)
}

fn main() -> Result<()> {
    let has = |name: &str| std::env::args().any(|arg| arg == name);
    // `cargo test --benches` runs this without `--bench`: on the host, where the kernels are built for it.
    let is_test = !has("--bench");
    let emulated = has("--emulate") || (is_test && cfg!(feature = "emulate"));
    let is_small = has("--small") || is_test;
    let cuda = match device(emulated) {
        Ok(cuda) => cuda,
        Err(reason) if std::env::var_os("HUNKWISE_REQUIRE_CUDA").is_none() => {
            println!("skipped: {reason}");
            return Ok(());
        }
        Err(reason) => return Err(reason),
    };
    println!("{}, version {}\n", cuda.name(), env!("CARGO_PKG_VERSION"));
    println!("| operation | kernel | launches | ms | rate |\n| --- | --- | --- | --- | --- |");
    let device = Device::Cuda(cuda.clone());
    if is_small {
        policy_loss_rows(&device, &cuda, 4, 300)?;
        logits(&device, &cuda, 4, 1000)?;
        head(&device, &cuda, 8, 32, 200)?;
        return similarity(&device, &cuda, 4, 10);
    }
    policy_loss_rows(&device, &cuda, 192, 4096)?;
    policy_loss_rows(&device, &cuda, 4096, 4096)?;
    logits(&device, &cuda, 8192, 151_936)?;
    head(&device, &cuda, 1024, 1024, 151_936)?;
    similarity(&device, &cuda, 20, 60)?;
    similarity(&device, &cuda, 128, 60)
}
