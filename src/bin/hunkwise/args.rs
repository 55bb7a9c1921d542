//! Flags. Every parameter of the configuration has one; a flag wins over the file given with `--config`.

use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Reset, Style};
use clap::{Args, Parser, Subcommand};
use hunkwise::Config;
use hunkwise::advantage::{DiffForm, Estimator, Over, Returns, StepGroups};
use hunkwise::anchors::{Groupability, Unit};
use hunkwise::edits::Fences;
use hunkwise::error::{Error, Place, Result};
use hunkwise::pipeline::Grouping;
use hunkwise::rollout::{DumpFormat, ReadOptions, Shape};

pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const RESET: Reset = Reset;

/// Hunk-level credit for coding-agent RL: rollouts in, token advantages out.
#[derive(Parser)]
#[command(version, about, long_about = None, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to use colours.
    #[arg(long, value_enum, default_value = "auto", global = true)]
    pub(crate) color: Color,
}

const AFTER_HELP: &str = "\
Examples:
  hunkwise credit rollouts.jsonl -o credit.jsonl
  hunkwise credit dumps/*.jsonl -o credit.jsonl --eta 0.9 --lambda 1.0 --groups groups.jsonl
  hunkwise show rollouts.jsonl --task fizzbuzz
  hunkwise profile --synthetic 6x32x8x50 --step-seconds 300
  hunkwise loss-check tensors.safetensors --preset dapo

Exit status: 0 done; 1 error, nothing written; 2 wrong usage; 3 done, but some input rows were not usable (they are listed) or losses differ.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Compute token advantages (DiDPO: A = A^E + lambda * A^D) of rollouts and write them as JSON lines.
    Credit(CreditArgs),
    /// Draw the rollouts of a task: each diff with its lines coloured by credit, and the groups.
    Show(ShowArgs),
    /// Measure what the credit costs beside GRPO's: time and memory of each stage, for GRPO, GiGPO and each grouping.
    ///
    /// Each method sets the grouping and the step advantage itself; all other parameters are as given.
    Profile(ProfileArgs),
    /// Compute a policy loss twice, in f64 from the formulas and on the fast path, from tensors of your trainer: its
    /// value, metrics and gradient of each token, to compare a trainer with.
    LossCheck(LossCheckArgs),
    /// List what there is to compute on: the processor, CUDA devices and wgpu adapters, or why there are none.
    Devices(DevicesArgs),
}

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// Print one JSON object instead.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::AlwaysAnsi,
            Color::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Args)]
pub(crate) struct CreditArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Result: one JSON object per row, with spans and dense advantages; `-` is standard output. Without it only the
    /// summary is printed. Every output file appears whole or not at all; docs/output.md describes them.
    #[arg(short, long, value_name = "OUT", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Also write the groups: one JSON object per anchor with its members and their text.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) groups: Option<PathBuf>,
    /// Also write all diagnostics as one JSON object, timings included.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) diagnostics: Option<PathBuf>,
    /// Leave the dense advantages out of the result: spans alone.
    #[arg(long, help_heading = "Output")]
    pub(crate) spans_only: bool,
    /// Add the file and line that each row came from.
    #[arg(long, help_heading = "Output")]
    pub(crate) source: bool,
    /// Print no summary.
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Task to draw; without it the tasks are listed.
    #[arg(long, value_name = "T", help_heading = "Drawing")]
    pub(crate) task: Option<String>,
    /// Draw this trajectory alone, and the groups that it is in.
    #[arg(long, value_name = "ID", help_heading = "Drawing", requires = "task")]
    pub(crate) trajectory: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Args)]
// Each method sets the first two itself, so that `profile` refuses them; with them the third says nothing.
#[command(
    mut_arg("grouping", |arg| arg.hide(true)),
    mut_arg("step", |arg| arg.hide(true)),
    mut_arg("step_eta", |arg| arg.hide(true))
)]
pub(crate) struct ProfileArgs {
    /// Dumps of rollouts, as for `credit`.
    #[arg(required_unless_present = "synthetic", value_name = "FILES", help_heading = "Input")]
    pub(crate) files: Vec<PathBuf>,
    /// Made-up rollouts instead of files: tasks, rollouts of each, turns of each, lines of each turn.
    #[arg(long, value_name = "TxNxKxL", conflicts_with = "files", help_heading = "Input")]
    pub(crate) synthetic: Option<Shape>,
    /// Seed of the made-up rollouts.
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Input")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Runs of each method, after one off the clock; times are their medians.
    #[arg(long, default_value_t = 5, value_name = "N", help_heading = "Measuring",
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeat: u16,
    /// Seconds of a training step, to give the overhead as a share of it.
    #[arg(long, value_name = "S", help_heading = "Measuring", value_parser = positive)]
    pub(crate) step_seconds: Option<f64>,
    /// Also measure an eighth, a quarter and a half of the rollouts, of the lines (of made-up rollouts) and of the
    /// tasks, and fit how the time grows.
    #[arg(long, help_heading = "Measuring")]
    pub(crate) growth: bool,
    /// Write all figures as one JSON object; `-` is standard output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a trace of one run of each method in Chrome's trace event format, which ui.perfetto.dev opens.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,
    /// Run one method once and print the peaks of memory: what `profile` runs itself in a process of its own.
    #[arg(long, hide = true, value_name = "METHOD")]
    pub(crate) memory_of: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Args)]
pub(crate) struct LossCheckArgs {
    /// JSON or safetensors with log_prob, mask and advantages, and what else the loss reads; docs/loss-check.md describes it.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The loss: grpo, bnpo, dapo, dr_grpo, gspo, cispo_trl, cispo_verl, sapo, luspo, ppo, didpo. Wins over the
    /// file's `config` [default: grpo].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub(crate) preset: Option<String>,
    /// The loss as a TOML file: `preset`, and the fields that differ from it. Wins over the file's `config`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Largest difference that counts as equal: of a loss, relative to the sum of its tokens' absolute shares; of a
    /// token's gradient or share of the loss, relative to the largest of the batch.
    #[arg(long, default_value_t = 1e-4, value_name = "X", value_parser = positive)]
    pub(crate) tolerance: f64,
    /// Tokens to print; 0 prints none. Those under the mask come in order.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) tokens: usize,
    /// Write everything, all tokens included, as one JSON object; `-` is standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0".to_string()),
    }
}

#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Dumps of rollouts; the format of each is found from its content. `-` is standard input.
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
}

#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct ReadArgs {
    /// Format of the dumps, when it should not be guessed: hunkwise, verl, nemo-rl, prime-rl, areal, trl.
    #[arg(long, value_name = "NAME")]
    format: Option<DumpFormat>,
    /// A Hugging Face tokenizer.json: exact byte ends for dumps with token ids, tokens for dumps of text alone.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Stop at the first row that is not usable, instead of flagging it.
    #[arg(long)]
    strict: bool,
    /// Longest line of a dump, in bytes; a longer one is flagged and passed over [default: 268435456]
    #[arg(long, value_name = "BYTES")]
    max_line_bytes: Option<usize>,
    /// Threads, at most 1024; 0 is one per core.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(..=1024))]
    pub(crate) threads: u16,
    /// Where credit is computed: cpu, cuda, cuda:1, wgpu, or best. Results do not depend on it. `hunkwise devices` lists them.
    #[arg(long, default_value = "cpu", value_name = "NAME")]
    pub(crate) device: String,
}

impl ReadArgs {
    pub(crate) fn options(&self) -> ReadOptions {
        let default = ReadOptions::default();
        ReadOptions {
            format: self.format,
            tokenizer: self.tokenizer.clone(),
            strict: self.strict,
            max_line_bytes: self.max_line_bytes.unwrap_or(default.max_line_bytes),
        }
    }
}

/// A value of one of the configuration's enums, by the name it has in TOML.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> std::result::Result<T, String> {
    serde_json::from_value(serde_json::Value::String(name.to_string())).map_err(|e| e.to_string())
}

macro_rules! config_args {
    ($($(#[$doc:meta])* $flag:ident: $type:ty => $($path:ident).+ $(, $parser:expr)?;)*) => {
        #[derive(Args)]
        #[command(next_help_heading = "Method")]
        pub(crate) struct ConfigArgs {
            /// Configuration in TOML: grouping, max_lines, [edits], [similarity], [anchors], [advantage]. Flags win over it.
            #[arg(long, value_name = "FILE")]
            config: Option<PathBuf>,
            $($(#[$doc])* #[arg(long, value_name = "V", hide_possible_values = true, allow_negative_numbers = true $(, value_parser = $parser)?)] $flag: Option<$type>,)*
        }

        impl ConfigArgs {
            fn overlay(&self, config: &mut Config) {
                $(if let Some(value) = self.$flag { config.$($path).+ = value; })*
            }
        }
    };
}

config_args! {
    /// How groups are made: windows (DiDPO), whole (whole root diffs), exact (equal windows), opcodes (difflib, the authors' code), none (GRPO) [default: windows]
    grouping: Grouping => grouping, named::<Grouping>;
    /// Longest window in lines [default: 32]
    max_lines: u32 => max_lines;
    /// When a fenced code block is an edit: auto, always, never [default: auto]
    fences: Fences => edits.fences, named::<Fences>;
    /// Keep lines that search and replace text share in both roots: true, false [default: false]
    keep_context: bool => edits.keep_context;
    /// Give no credit to a repeated root diff: true, false [default: true]
    diff_gate: bool => edits.diff_gate;
    /// Least similarity of a match, in (0, 1] [default: 0.8]
    eta: f64 => similarity.eta;
    /// Weight of the embedding part of the similarity, from 0 to 1 [default: 0]
    embedding_weight: f64 => similarity.embedding_weight;
    /// Dimension of the built-in line vectors [default: 256]
    embedding_dim: usize => similarity.embedding_dim;
    /// Most bytes that the similarity of a task may hold [default: 4294967296]
    memory_limit: u64 => similarity.memory_limit;
    /// Form of the groupability score: exponential, additive, log, linear [default: exponential]
    groupability: Groupability => anchors.groupability, named::<Groupability>;
    /// Scale of the mean size in lines [default: 8]
    s0: f64 => anchors.s0;
    /// Scale of the number of occurrences [default: 8]
    g0: f64 => anchors.g0;
    /// Most anchors per task [default: 64]
    max_anchors: usize => anchors.max_anchors;
    /// What the selection covers: line, occurrence [default: line]
    unit: Unit => anchors.unit, named::<Unit>;
    /// Estimator of the episode advantage: grpo, grpo_no_std, dr_grpo, rloo [default: grpo]
    episode: Estimator => advantage.episode, named::<Estimator>;
    /// What its statistics run over: trajectories, turns [default: trajectories]
    over: Over => advantage.over, named::<Over>;
    /// Added to a standard deviation [default: 1e-6]
    eps: f64 => advantage.eps;
    /// Degrees of freedom taken off in a standard deviation: 0, 1 [default: 1]
    ddof: u8 => advantage.ddof;
    /// Discount of the return-to-go [default: 0.95]
    gamma: f64 => advantage.gamma;
    /// What a turn's return is: discounted, outcome [default: discounted]
    returns: Returns => advantage.returns, named::<Returns>;
    /// Form of the diff advantage: within, contrast [default: within]
    diff: DiffForm => advantage.diff, named::<DiffForm>;
    /// Divide the diff advantage by the standard deviation of its group: true, false [default: false]
    diff_std: bool => advantage.diff_std;
    /// Weight of the diff advantage [default: 1.2]
    lambda: f64 => advantage.lambda;
    /// Step-level groups of equal observations (GiGPO): off, exact, similar [default: off]
    step: StepGroups => advantage.step, named::<StepGroups>;
    /// Weight of the step advantage [default: 1]
    omega: f64 => advantage.omega;
    /// Least similarity of two observations with `--step similar` [default: 0.9]
    step_eta: f64 => advantage.step_eta;
}

impl ConfigArgs {
    /// True when a flag says how groups are made.
    pub(crate) fn names_a_method(&self) -> bool {
        self.grouping.is_some() || self.step.is_some()
    }

    /// The file's configuration, or the default, with the flags laid over it; checked.
    pub(crate) fn resolve(&self) -> Result<Config> {
        let mut config = match &self.config {
            None => Config::default(),
            Some(path) => read_toml(path)?,
        };
        self.overlay(&mut config);
        config.validate()?;
        Ok(config)
    }
}

/// A TOML file; what is wrong with it comes with its line.
pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            1 + before.iter().filter(|&&byte| byte == b'\n').count()
        });
        Error::input(Place::new(path.display().to_string(), line as u64), e.message())
    })
}
