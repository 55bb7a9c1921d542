//! The invariants of ARCHITECTURE.md that a compiler does not check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Stages in the order of the flow: a stage may use those before it.
const STAGES: [&str; 7] =
    ["rollout", "edits", "code", "similarity", "anchors", "advantage", "loss"];
/// What every stage may use.
const FOUNDATION: [&str; 4] = ["device", "params", "error", "backend"];
/// Operations that a backend has a file for.
const STEMS: [&str; 7] = [
    "window_similarity",
    "pair_similarity",
    "anchor_gain",
    "token_advantage",
    "policy_loss",
    "logits_loss",
    "linear_loss",
];
/// Each with its file of `shaders/`.
const WGPU_STEMS: [(&str, &str); 7] = [
    ("policy_loss", "policy_loss"),
    ("window_similarity", "window_similarity"),
    ("pair_similarity", "window_similarity"),
    ("anchor_gain", "anchor_gain"),
    ("logits_loss", "logits_loss"),
    ("linear_loss", "linear_loss"),
    ("token_advantage", "token_advantage"),
];
/// The only files with `unsafe`.
const UNSAFE_FILES: [&str; 9] = [
    "src/backend/cpu/linear_loss/gemm.rs",
    "src/backend/cpu/pair_similarity/avx2.rs",
    "src/backend/cpu/vectorized/avx2.rs",
    "src/backend/cpu/vectorized/avx512.rs",
    "src/backend/cpu/window_similarity/avx2.rs",
    "src/backend/cpu/window_similarity/avx512.rs",
    "src/backend/cuda/emulated.rs",
    "src/backend/cuda/gpu.rs",
    "src/backend/cuda/nvrtc.rs",
];
/// A file longer than this should have been two.
const MOST_LINES: usize = 500;

fn files_under(folder: &str, extension: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("an entry of the folder").path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(&root.join(folder), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{extension} under {folder}");
    found
        .iter()
        .map(|path| path.strip_prefix(root).expect("below the root").to_path_buf())
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .expect("a source file is UTF-8")
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Top modules named as `crate::x` outside comments.
fn modules_used(text: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for line in text.lines().filter(|line| !is_comment(line)) {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(!name.is_empty(), "write `use crate::x::…` on a line of its own: {line}");
            used.insert(name);
        }
    }
    used
}

fn room_of(path: &Path) -> String {
    let room =
        path.components().nth(1).expect("below src").as_os_str().to_string_lossy().into_owned();
    room.trim_end_matches(".rs").to_string()
}

#[test]
fn a_stage_uses_only_earlier_stages_and_the_foundation() {
    for path in files_under("src", "rs") {
        let room = room_of(&path);
        let Some(at) = STAGES.iter().position(|stage| *stage == room) else { continue };
        for used in modules_used(&read(&path)) {
            let allowed =
                FOUNDATION.contains(&used.as_str()) || STAGES[..=at].contains(&used.as_str());
            assert!(allowed, "{}: `{room}` uses `{used}`, which comes after it", path.display());
        }
    }
}

#[test]
fn a_backend_knows_only_params_and_error() {
    for path in files_under("src/backend", "rs") {
        for used in modules_used(&read(&path)) {
            let allowed = ["params", "error", "backend"].contains(&used.as_str());
            assert!(allowed, "{}: a backend uses `{used}`", path.display());
        }
    }
}

#[test]
fn only_the_pipeline_knows_all_stages() {
    for path in files_under("src", "rs") {
        if STAGES.contains(&room_of(&path).as_str()) || room_of(&path) == "backend" {
            assert!(
                !modules_used(&read(&path)).contains("pipeline"),
                "{} uses the pipeline",
                path.display()
            );
        }
    }
}

#[test]
fn every_backend_has_the_same_operations() {
    for backend in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend"))
        .expect("src/backend")
    {
        let folder = backend.expect("an entry").path();
        if !folder.is_dir() {
            continue;
        }
        let is_cuda = folder.ends_with("cuda");
        for stem in STEMS {
            assert!(
                !is_cuda || Path::new(&format!("kernels/{stem}.cu")).exists(),
                "kernels lacks {stem}"
            );
            let there = folder.join(format!("{stem}.rs")).exists()
                || folder.join(stem).join("mod.rs").exists();
            assert!(there, "{} lacks {stem}", folder.display());
        }
    }
}

#[test]
fn every_shader_is_used_and_says_what_it_does() {
    let used: BTreeSet<String> = WGPU_STEMS.iter().map(|(_, shader)| shader.to_string()).collect();
    let mut there = BTreeSet::new();
    for path in files_under("shaders", "wgsl") {
        let (text, stem) = (read(&path), path.file_stem().expect("a name").to_string_lossy());
        assert!(text.starts_with("// "), "{} does not begin with what it is", path.display());
        if ["common", "f64"].contains(&stem.as_ref()) {
            continue;
        }
        for part in ["Shapes:", "Dispatch:", "Moves"] {
            assert!(text.contains(part), "{} does not say its {part}", path.display());
        }
        there.insert(stem.into_owned());
    }
    assert_eq!(there, used);
}

#[test]
fn unsafe_stays_in_its_files_and_says_why() {
    let mut with_unsafe = BTreeSet::new();
    for path in files_under("src", "rs") {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let opens_block =
                !is_comment(line) && (line.contains("unsafe {") || line.contains("unsafe{"));
            if !is_comment(line) && line.contains("unsafe") && !line.contains("unsafe_code") {
                with_unsafe.insert(path.to_string_lossy().into_owned());
            }
            if opens_block {
                let comment = lines[..i]
                    .iter()
                    .rev()
                    .take_while(|above| is_comment(above))
                    .collect::<Vec<_>>();
                assert!(
                    comment.iter().any(|above| above.contains("SAFETY:")),
                    "{}:{}: unsafe block without a SAFETY comment",
                    path.display(),
                    i + 1
                );
            }
        }
    }
    let expected: BTreeSet<String> = UNSAFE_FILES.iter().map(|f| f.to_string()).collect();
    assert_eq!(with_unsafe, expected);
}

#[test]
fn no_stub_and_no_ignored_test() {
    for path in files_under("src", "rs").into_iter().chain(files_under("tests", "rs")) {
        if path.ends_with("tidy.rs") {
            continue;
        }
        let text = read(&path);
        for word in ["todo!(", "unimplemented!(", "#[ignore", "dbg!("] {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
    }
}

#[test]
fn files_are_short_and_say_what_they_are() {
    for path in files_under("src", "rs") {
        let text = read(&path);
        let n_lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        assert!(n_lines <= MOST_LINES, "{}: {n_lines} lines, at most {MOST_LINES}", path.display());
        assert!(text.starts_with("//!"), "{} does not begin with what it is", path.display());
    }
}

#[test]
fn architecture_names_every_room() {
    let text = read(Path::new("ARCHITECTURE.md"));
    for room in files_under("src", "rs").iter().map(|path| room_of(path)).collect::<BTreeSet<_>>() {
        assert!(text.contains(&format!("`src/{room}")), "ARCHITECTURE.md does not name src/{room}");
    }
}
