//! `hunkwise show`: a task's rollouts in the terminal, lines coloured by credit.

use std::io::{self, Write};

use anstyle::{Ansi256Color, Style};
use hunkwise::advantage::{StepGroups, trajectory_score};
use hunkwise::edits::EditType;
use hunkwise::error::{Error, Result};
use hunkwise::pipeline::{Config, Group, Grouping, TaskCredit};
use hunkwise::report::{self, ShownLine, ShownRollout, Sign};
use hunkwise::rollout::{Batch, Task};

use crate::args::ShowArgs;
use crate::session;
use crate::text::{count, plain, wrap};

/// A longer line of code is cut; nobody reads a minified file here.
const CODE_WIDTH: usize = 300;
/// Lines of a group's code that stand in the list of groups.
const SHOWN_LINES: usize = 3;
/// Of a larger group the members with the highest and those with the lowest advantage are listed.
const SHOWN_MEMBERS: usize = 8;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Returns how many input rows could not be taken.
pub(crate) fn run(args: &ShowArgs) -> Result<usize> {
    let config = session::configure(&args.input.reading, &args.config)?;
    let mut batch = session::read(&args.input.files, &args.input.reading)?;
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
            let wanted = args.trajectory.as_deref();
            let wanted = match wanted {
                None => None,
                Some(id) => {
                    let at = batch.tasks[0].trajectories.iter().position(|t| t.id == id);
                    Some(at.ok_or_else(|| Error::Config {
                        op: "show",
                        name: "trajectory",
                        got: format!("`{id}`"),
                        expected: "the id of a trajectory of the task (leave it out to draw all)",
                    })?)
                }
            };
            let credit = session::credit(&args.input.reading, &batch, &config, true)?;
            draw(&mut out, &batch.tasks[0], &credit.tasks[0], wanted, &config)
        }
    }
    .and_then(|()| out.flush())
    .map_err(|e| Error::io("standard output", e))?;
    Ok(n_flagged)
}

fn list_tasks(out: &mut impl Write, batch: &Batch) -> io::Result<()> {
    let names: Vec<_> = batch.tasks.iter().map(|task| plain(&task.id)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(4, 44);
    writeln!(out, "{BOLD}{:width$}  rollouts  turns  scores{BOLD:#}", "task")?;
    for (task, name) in batch.tasks.iter().zip(names) {
        let n_turns: usize = task.trajectories.iter().map(|t| t.turns().count()).sum();
        writeln!(
            out,
            "{name:width$}  {:8}  {n_turns:5}  {}",
            task.trajectories.len(),
            scores_of(task)
        )?;
    }
    writeln!(out, "\n--task T draws one of them")
}

fn scores_of(task: &Task) -> String {
    let scores: Vec<f64> = task.trajectories.iter().filter_map(trajectory_score).collect();
    let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match scores.len() {
        0 => "none".to_string(),
        _ if least == greatest => format!("all {least}"),
        n => {
            let mean = scores.iter().map(|score| score / n as f64).sum::<f64>();
            format!("{least} to {greatest}, mean {mean:.2}")
        }
    }
}

fn draw(
    out: &mut impl Write,
    task: &Task,
    credit: &TaskCredit,
    wanted: Option<usize>,
    config: &Config,
) -> io::Result<()> {
    let n_turns: usize = task.trajectories.iter().map(|t| t.turns().count()).sum();
    writeln!(
        out,
        "{BOLD}task {}{BOLD:#}  {}, {}, {}",
        plain(&task.id),
        count(task.trajectories.len() as u64, "rollout"),
        count(n_turns as u64, "turn"),
        count(credit.groups.len() as u64, "group")
    )?;
    let step = if config.advantage.step == StepGroups::Off {
        ""
    } else {
        " and its turn's step advantage"
    };
    let lambda = config.advantage.lambda;
    match (config.grouping, credit.groups.is_empty()) {
        (Grouping::None, _) => {
            writeln!(out, "{DIM}no grouping: every line has its rollout's A^E{step}{DIM:#}")?;
        }
        (_, true) => writeln!(
            out,
            "{DIM}no edit recurs in two rollouts: every line has its rollout's A^E{step}{DIM:#}"
        )?,
        (_, false) => {
            let legend = format!(
                "credit of a line = its rollout's A^E{step}, and in a group also {lambda} · its A^D there"
            );
            writeln!(out, "{DIM}{}{DIM:#}", wrap(&legend, 0))?;
            draw_groups(out, task, credit, wanted)?;
        }
    }
    let rollouts = report::show_task(task, credit);
    let scale = rollouts
        .iter()
        .flat_map(|r| r.turns.iter().flat_map(|t| t.files.iter().flat_map(|(_, lines)| lines)))
        .map(|line| line.advantage.abs())
        .fold(0.0, f32::max);
    for (i, rollout) in rollouts.iter().enumerate() {
        if wanted.is_none_or(|wanted| wanted == i) {
            draw_rollout(out, rollout, scale, config.grouping)?;
        }
    }
    Ok(())
}

/// The groups, the one with the greatest |A^D| first: what recurs, where, and how each rollout did with it.
fn draw_groups(
    out: &mut impl Write,
    task: &Task,
    credit: &TaskCredit,
    wanted: Option<usize>,
) -> io::Result<()> {
    let mut groups: Vec<(usize, &Group)> = credit
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| {
            wanted.is_none_or(|at| group.members.iter().any(|m| m.turn.trajectory == at))
        })
        .collect();
    groups.sort_by(|(i, a), (j, b)| greatest(b).total_cmp(&greatest(a)).then(i.cmp(j)));
    let scale = groups.iter().map(|(_, group)| greatest(group)).fold(0.0, f32::max);
    if !groups.is_empty() {
        writeln!(out, "\n{BOLD}groups{BOLD:#}{DIM}, by their greatest |A^D|{DIM:#}")?;
    }
    for (anchor, group) in groups {
        writeln!(
            out,
            "{BOLD}{}{BOLD:#}  {} {}  {DIM}{} of {:.1} lines, groupability {:.3}{DIM:#}",
            label(anchor as u32),
            match group.edit_type {
                EditType::Add => "added in",
                EditType::Delete => "deleted from",
                EditType::Overwrite => "written to",
            },
            path_of(&group.path),
            count(group.members.len() as u64, "member"),
            group.mean_lines,
            group.score,
        )?;
        draw_code(out, task, group)?;
        draw_members(out, task, group, scale)?;
    }
    Ok(())
}

fn greatest(group: &Group) -> f32 {
    group.members.iter().map(|member| member.advantage.abs()).fold(0.0, f32::max)
}

/// The first lines of the member that is most like the anchor.
fn draw_code(out: &mut impl Write, task: &Task, group: &Group) -> io::Result<()> {
    let most_alike = group
        .members
        .iter()
        .reduce(|best, member| if member.similarity > best.similarity { member } else { best });
    let Some(member) = most_alike else { return Ok(()) };
    let sequence = &task.trajectories[member.turn.trajectory].sequences[member.turn.sequence];
    let code: Vec<u8> = member
        .bytes
        .iter()
        .flat_map(|bytes| sequence.text.get(bytes.clone()).unwrap_or_default())
        .copied()
        .collect();
    let code = String::from_utf8_lossy(&code);
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim().is_empty()).collect();
    // A single line left over is drawn rather than counted.
    let n_shown = if lines.len() == SHOWN_LINES + 1 { lines.len() } else { SHOWN_LINES };
    for line in lines.iter().take(n_shown) {
        writeln!(out, "      {DIM}|{DIM:#} {}", cut(line))?;
    }
    match lines.len().saturating_sub(n_shown) {
        0 => Ok(()),
        n => writeln!(out, "      {DIM}| ... {n} more lines{DIM:#}"),
    }
}

/// Each member with its advantage and where it comes from, the highest first.
fn draw_members(out: &mut impl Write, task: &Task, group: &Group, scale: f32) -> io::Result<()> {
    let mut members: Vec<_> = group.members.iter().collect();
    members.sort_by(|a, b| b.advantage.total_cmp(&a.advantage));
    let n_left_out = match members.len() {
        n if n > SHOWN_MEMBERS + 1 => n - SHOWN_MEMBERS,
        _ => 0,
    };
    for (i, member) in members.iter().enumerate() {
        if n_left_out > 0 && i == SHOWN_MEMBERS / 2 {
            writeln!(out, "      {DIM}... {n_left_out} more between{DIM:#}")?;
        }
        if n_left_out > 0 && (SHOWN_MEMBERS / 2..SHOWN_MEMBERS / 2 + n_left_out).contains(&i) {
            continue;
        }
        let style = style_of(member.advantage, scale);
        let trajectory = &task.trajectories[member.turn.trajectory];
        let turn = if trajectory.turns().count() > 1 {
            format!(" turn {}", member.turn.number)
        } else {
            String::new()
        };
        let turn_return =
            member.turn_return.map_or("unscored".to_string(), |r| format!("return {r:.3}"));
        writeln!(
            out,
            "      A^D {style}{:+.3}{style:#} in {}{turn}  {DIM}{turn_return}, similarity {:.2}{DIM:#}",
            member.advantage,
            plain(&trajectory.id),
            member.similarity
        )?;
    }
    Ok(())
}

fn draw_rollout(
    out: &mut impl Write,
    rollout: &ShownRollout,
    scale: f32,
    grouping: Grouping,
) -> io::Result<()> {
    let score = rollout.score.map_or("unscored".to_string(), |s| format!("score {s}"));
    let style = style_of(rollout.episode, scale);
    writeln!(
        out,
        "\n{BOLD}rollout {}{BOLD:#}  {score}  A^E {style}{:+.3}{style:#}",
        plain(&rollout.trajectory),
        rollout.episode
    )?;
    if grouping == Grouping::None {
        return Ok(());
    }
    for turn in &rollout.turns {
        writeln!(
            out,
            "  {DIM}turn {}{}{DIM:#}",
            turn.number,
            if turn.files.is_empty() { "  no edit" } else { "" }
        )?;
        for note in &turn.notes {
            writeln!(out, "    {DIM}{}{DIM:#}", plain(note))?;
        }
        for (path, lines) in &turn.files {
            writeln!(out, "    {BOLD}{}{BOLD:#}", path_of(path))?;
            let mut last = None;
            for line in lines {
                // An edit takes lines out before it puts lines in: from there back a new edit begins.
                if last == Some(Sign::Add) && line.sign == Sign::Delete {
                    writeln!(out, "                    {DIM}:{DIM:#}")?;
                }
                last = Some(line.sign);
                draw_line(out, line, scale)?;
            }
        }
    }
    Ok(())
}

/// The credit stands before the code, where it lines up whatever the length of the line.
fn draw_line(out: &mut impl Write, line: &ShownLine, scale: f32) -> io::Result<()> {
    let sign = match line.sign {
        Sign::Add => '+',
        Sign::Delete => '-',
        Sign::Overwrite => '=',
    };
    let style = style_of(line.advantage, scale);
    let group = line.anchor.map_or(String::new(), label);
    writeln!(
        out,
        "    {style}{:+8.3}{style:#} {BOLD}{group:>5}{BOLD:#}  {style}{sign} {}{style:#}",
        line.advantage,
        cut(&line.text)
    )
}

fn label(anchor: u32) -> String {
    format!("G{anchor}")
}

fn path_of(path: &str) -> String {
    if path.is_empty() { "(no path)".to_string() } else { plain(path).into_owned() }
}

/// A line of code as it can stand in a terminal.
fn cut(line: &str) -> String {
    let mut text: String = line.trim_end().chars().take(CODE_WIDTH).collect();
    if text.len() < line.trim_end().len() {
        text.push_str(" ...");
    }
    plain(&text).into_owned()
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
