//! `hunkwise show`: a task's rollouts in the terminal, lines coloured by credit.

use std::io::{self, Write};

use anstyle::{Ansi256Color, Style};
use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{Grouping, TaskCredit};
use hunkwise::report::{self, ShownRollout, Sign};
use hunkwise::rollout::{Batch, Task};

use crate::args::ShowArgs;
use crate::session;

/// Columns of code before the credit; longer lines push it to the right.
const CODE_WIDTH: usize = 72;

/// Returns how many input rows could not be taken.
pub(crate) fn run(args: &ShowArgs) -> Result<usize> {
    let config = session::configure(&args.input, &args.config)?;
    let mut batch = session::read(&args.input)?;
    session::report_flagged(&batch);
    let mut out = io::BufWriter::new(anstream::stdout());
    let n_flagged = batch.flagged.len();
    match &args.task {
        None => list_tasks(&mut out, &batch),
        Some(id) => {
            let Some(at) = batch.tasks.iter().position(|task| task.id == *id) else {
                return Err(Error::Config {
                    op: "show",
                    name: "task",
                    got: format!("`{id}`"),
                    expected: "the id of a task in the files (leave --task out to list them)",
                });
            };
            batch.tasks = vec![batch.tasks.swap_remove(at)];
            if let Some(wanted) = &args.trajectory
                && !batch.tasks[0].trajectories.iter().any(|t| t.id == *wanted)
            {
                return Err(Error::Config {
                    op: "show",
                    name: "trajectory",
                    got: format!("`{wanted}`"),
                    expected: "the id of a trajectory of the task (leave it out to draw all)",
                });
            }
            let credit = session::credit(&batch, &config, true)?;
            draw(
                &mut out,
                &batch.tasks[0],
                &credit.tasks[0],
                args.trajectory.as_deref(),
                config.grouping,
            )
        }
    }
    .and_then(|()| out.flush())
    .map_err(|e| Error::io("standard output", e))?;
    Ok(n_flagged)
}

fn list_tasks(out: &mut impl Write, batch: &Batch) -> io::Result<()> {
    for task in &batch.tasks {
        let turns: usize = task.trajectories.iter().map(|t| t.turns().count()).sum();
        writeln!(
            out,
            "{:40} {:4} trajectories {:5} turns",
            task.id,
            task.trajectories.len(),
            turns
        )?;
    }
    writeln!(out, "\n--task T draws one of them")
}

fn draw(
    out: &mut impl Write,
    task: &Task,
    credit: &TaskCredit,
    wanted: Option<&str>,
    grouping: Grouping,
) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(
        out,
        "{bold}task {}{bold:#}  {} trajectories, {} groups",
        task.id,
        task.trajectories.len(),
        credit.groups.len()
    )?;
    for (anchor, group) in credit.groups.iter().enumerate() {
        let n = group.members.len();
        let scores: Vec<String> = group
            .members
            .iter()
            .map(|m| m.turn_return.map_or("-".to_string(), |r| format!("{r:.2}")))
            .collect();
        writeln!(
            out,
            "  {}: {n} members of {:.1} lines, groupability {:.3}, {} {}, returns {}",
            label(anchor as u32),
            group.mean_lines,
            group.score,
            match group.edit_type {
                hunkwise::edits::EditType::Add => "added in",
                hunkwise::edits::EditType::Delete => "deleted from",
                hunkwise::edits::EditType::Overwrite => "written to",
            },
            if group.path.is_empty() { "(no path)" } else { &group.path },
            scores.join(" ")
        )?;
    }
    let rollouts = report::show_task(task, credit);
    let scale = rollouts
        .iter()
        .flat_map(|r| r.turns.iter().flat_map(|t| t.files.iter().flat_map(|(_, lines)| lines)))
        .map(|line| line.advantage.abs())
        .fold(0.0, f32::max);
    for rollout in rollouts.iter().filter(|r| wanted.is_none_or(|id| r.trajectory == id)) {
        draw_rollout(out, rollout, scale, grouping)?;
    }
    Ok(())
}

fn draw_rollout(
    out: &mut impl Write,
    rollout: &ShownRollout,
    scale: f32,
    grouping: Grouping,
) -> io::Result<()> {
    let bold = Style::new().bold();
    let dim = Style::new().dimmed();
    let score = rollout.score.map_or("unscored".to_string(), |s| format!("score {s}"));
    writeln!(
        out,
        "\n{bold}trajectory {}{bold:#}  {score}  A^E {:+.3}",
        rollout.trajectory, rollout.episode
    )?;
    if grouping == Grouping::None {
        return writeln!(out, "  {dim}no groups: every token has A^E{dim:#}");
    }
    for turn in &rollout.turns {
        writeln!(
            out,
            "{dim}  turn {}{dim:#}{}",
            turn.number,
            if turn.files.is_empty() { "  no edit" } else { "" }
        )?;
        for note in &turn.notes {
            writeln!(out, "    {dim}{note}{dim:#}")?;
        }
        for (path, lines) in &turn.files {
            writeln!(
                out,
                "    {bold}{}{bold:#}",
                if path.is_empty() { "(no path)" } else { path }
            )?;
            for line in lines {
                let sign = match line.sign {
                    Sign::Add => '+',
                    Sign::Delete => '-',
                    Sign::Overwrite => '=',
                };
                let style = style_of(line.advantage, scale);
                let text = line.text.trim_end().replace('\t', "    ");
                let group = line.anchor.map_or(String::new(), label);
                let padding = " ".repeat(CODE_WIDTH.saturating_sub(text.chars().count()));
                writeln!(
                    out,
                    "    {style}{sign} {text}{style:#}{padding} {style}{:+.3}{style:#} {group}",
                    line.advantage
                )?;
            }
        }
    }
    Ok(())
}

fn label(anchor: u32) -> String {
    format!("G{anchor}")
}

/// Green above zero, red below, stronger with size; plain at zero. The number beside the line says the same.
fn style_of(advantage: f32, scale: f32) -> Style {
    const GREENS: [u8; 4] = [108, 71, 34, 40];
    const REDS: [u8; 4] = [138, 131, 160, 196];
    if advantage == 0.0 || scale == 0.0 {
        return Style::new();
    }
    let level = ((advantage.abs() / scale * 4.0) as usize).min(3);
    let color = if advantage > 0.0 { GREENS[level] } else { REDS[level] };
    Ansi256Color(color).on_default()
}
