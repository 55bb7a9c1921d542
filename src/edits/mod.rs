//! Edits: what a response says to change, found in its text with exact byte ranges, and the root diffs they make.
//!
//! [`parse`] finds the edits of one response, in any mix of notations; [`FileVersions::roots`] turns them into root
//! diffs, in the light of what is known about the trajectory's files. Both take time linear in the text, for any text
//! (a line diff of two files apart, which is bounded: see `line_diff`).
//!
//! One file per notation. A new one is written in its own file and named in the table in `scan`.

mod apply_patch;
mod call;
mod fence;
mod hunk;
mod json;
mod line_diff;
mod path;
mod roots;
mod scan;
mod search_replace;
mod tags;
mod text;
mod tool_call;
mod tool_tags;
mod unified_diff;
mod unified_header;
mod versions;
mod xml;

use std::ops::Range;

pub use roots::Roots;
pub use versions::FileVersions;

/// The edits of one response and what was odd in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// In the order in which they begin in the response; their bytes do not overlap.
    pub edits: Vec<Edit>,
    /// In the order in which they begin.
    pub notes: Vec<Note>,
}

/// Finds the edits of one response. All byte ranges are relative to it. Never fails: what cannot be read is noted.
///
/// Edits inside a closed `<think>` section are drafts: they give notes, no edits. So are those before a first
/// `</think>` line without an opening tag, for some chat templates put the opening tag into the prompt. A `<think>`
/// that is never closed hides nothing.
pub fn parse(response: &[u8], config: &EditConfig) -> Parsed {
    scan::parse(response, config)
}

/// The stable names of [`Note::kind`].
pub mod note {
    /// A block whose end is missing: ended by the next one of its kind, or by the end of the text. What was there is
    /// kept, unless the note says skipped.
    pub const UNCLOSED: &str = "unclosed";
    /// A SEARCH/REPLACE block with several lines that could be its separator; skipped.
    pub const AMBIGUOUS_SEPARATOR: &str = "ambiguous_separator";
    /// A SEARCH/REPLACE block without a separator line; skipped.
    pub const NO_SEPARATOR: &str = "no_separator";
    /// A hunk with fewer lines than its header declares, as when a text was stripped; kept.
    pub const SHORT_HUNK: &str = "short_hunk";
    /// A hunk with other lines than its header declares; its lines are kept by their prefixes.
    pub const WRONG_COUNT: &str = "wrong_count";
    /// A hunk line without a prefix; kept as context.
    pub const UNPREFIXED_LINE: &str = "unprefixed_line";
    /// A diff of a merge against several parents; kept, a line that any parent lacks is added, a line that only
    /// parents have is deleted.
    pub const COMBINED_DIFF: &str = "combined_diff";
    /// A hunk that no file header introduces; kept, with the file that its surroundings name, or none.
    pub const NO_FILE_HEADER: &str = "no_file_header";
    /// A file header of a diff without a hunk; skipped.
    pub const NO_HUNKS: &str = "no_hunks";
    /// A search text without its replacement, or the other way round; skipped.
    pub const INCOMPLETE_PAIR: &str = "incomplete_pair";
    /// A call of an editing tool that lacks an argument; skipped.
    pub const INCOMPLETE_CALL: &str = "incomplete_call";
    /// A call of an editing tool whose JSON cannot be read; skipped.
    pub const MALFORMED_JSON: &str = "malformed_json";
    /// An edit inside a thinking section; skipped.
    pub const IN_THINKING: &str = "in_thinking";
    /// A fenced code block that names no file, beside edits in other notations or in a language of shells and
    /// outputs; skipped.
    pub const UNNAMED_FENCE: &str = "unnamed_fence";
    /// A fenced code block that is no edit because the configuration says so; skipped.
    pub const FENCES_OFF: &str = "fences_off";
    /// An edit that changes no line, such as a rename; it gives no root diff.
    pub const NO_CHANGE: &str = "no_change";
    /// A root diff equal to the previous one at its path and type; dropped.
    pub const RE_EMISSION: &str = "re_emission";
    /// An edit that does not fit the known version of its file, which is kept as it was; its root diffs are made.
    pub const NOT_APPLIED: &str = "not_applied";
    /// An edit of an apply_patch block outside `*** Begin Patch`; kept.
    pub const NO_BEGIN: &str = "no_begin";
    /// Two versions of a file too large to be compared exactly: the changed lines may not be the fewest.
    pub const COARSE_DIFF: &str = "coarse_diff";

    /// All of them.
    pub const ALL: [&str; 20] = [
        UNCLOSED,
        AMBIGUOUS_SEPARATOR,
        NO_SEPARATOR,
        SHORT_HUNK,
        WRONG_COUNT,
        UNPREFIXED_LINE,
        COMBINED_DIFF,
        NO_FILE_HEADER,
        NO_HUNKS,
        INCOMPLETE_PAIR,
        INCOMPLETE_CALL,
        MALFORMED_JSON,
        IN_THINKING,
        UNNAMED_FENCE,
        FENCES_OFF,
        NO_CHANGE,
        RE_EMISSION,
        NOT_APPLIED,
        NO_BEGIN,
        COARSE_DIFF,
    ];
}

/// How edits are found and turned into root diffs.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EditConfig {
    /// When a fenced code block is an edit of its own.
    pub fences: Fences,
    /// Keep lines that search and replace text share in both roots, as the authors' released code does; by default
    /// they are context and belong to neither.
    pub keep_context: bool,
    /// Give no credit to a root diff equal to the previous one at the same path and type in its trajectory.
    pub diff_gate: bool,
}

impl Default for EditConfig {
    fn default() -> Self {
        EditConfig { fences: Fences::Auto, keep_context: false, diff_gate: true }
    }
}

/// When a fenced code block is an edit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fences {
    /// When it names a file, or when the response has no edit in another notation.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How lines change: the paper's edit type c ("none" there is `Overwrite` here). Types never match each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EditType {
    /// Lines put in.
    Add,
    /// Lines taken out.
    Delete,
    /// Lines of a whole file whose earlier version is not known.
    Overwrite,
}

/// The notation an edit was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `<edit path="…">` with search/replace, old/new, insert or code.
    Xml,
    /// A fenced code block.
    Fence,
    /// A unified diff, git's or plain.
    UnifiedDiff,
    /// `<<<<<<< SEARCH` … `=======` … `>>>>>>> REPLACE`.
    SearchReplace,
    /// `*** Begin Patch` … `*** End Patch`.
    ApplyPatch,
    /// JSON of a tool call: `str_replace_editor` and its kin.
    ToolCall,
}

/// A line of an edit as the response has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The line's own text, decoded (JSON escapes, diff prefix removed), without its line feed; a CR stays.
    pub text: Vec<u8>,
    /// Bytes of the response that spell this line: prefix, text and line feed (or its escape).
    pub bytes: Range<usize>,
}

/// One hunk of a diff: lines in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// Each line with what the hunk does to it.
    pub lines: Vec<(HunkLine, SourceLine)>,
    /// Line numbers as the header declares them; `None` when it has none.
    pub range: Option<HunkRange>,
    /// Text after the header's line numbers: a section title, no content.
    pub section: Vec<u8>,
    /// A marker says that the old version ends without a line feed.
    pub old_ends_bare: bool,
    /// A marker says that the new version ends without a line feed.
    pub new_ends_bare: bool,
}

/// Line numbers of a hunk, from 1; a count that the header leaves out is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkRange {
    /// First line in the old version; with a count of 0, the line after which the hunk stands.
    pub old_start: usize,
    /// Lines of the old version.
    pub old_count: usize,
    /// First line in the new version.
    pub new_start: usize,
    /// Lines of the new version.
    pub new_count: usize,
}

/// What a hunk does to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HunkLine {
    /// In both versions.
    Context,
    /// Only in the new version.
    Add,
    /// Only in the old version.
    Delete,
}

/// What an edit does to its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Text replaced by other text. An empty search text creates the file, or appends to it when it is known.
    Replace {
        /// Text looked for.
        old: Vec<SourceLine>,
        /// Text put in its place.
        new: Vec<SourceLine>,
    },
    /// Text put in at a place that the edit names.
    Insert {
        /// Text put in.
        new: Vec<SourceLine>,
        /// Lines of the file that stand before it, when the edit gives a line number.
        after: Option<usize>,
    },
    /// A whole file.
    Write {
        /// Its new content.
        new: Vec<SourceLine>,
    },
    /// Hunks of a diff.
    Hunks(Vec<Hunk>),
    /// A change without text, by its name: `rename`, `copy`, `mode`, `binary`, `submodule`, `create` (of an empty
    /// file), `delete` (of a whole file), `empty` (a header that names no change).
    Meta(&'static str),
}

/// One edit of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Its notation.
    pub format: Format,
    /// File, as the response names it without `a/` or `b/`; empty when it names none. A path that is not UTF-8 stays
    /// in git's quoted form.
    pub path: String,
    /// Previous name, of a rename or copy.
    pub old_path: Option<String>,
    /// What it does.
    pub change: Change,
    /// Bytes of the response that the whole edit takes.
    pub bytes: Range<usize>,
}

/// Something odd about a piece of a response: the edit is kept and flagged, or skipped with this reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// Bytes of the response.
    pub bytes: Range<usize>,
    /// A short stable name to count by, such as `short_hunk`, `ambiguous_separator`, `unclosed`, `re_emission`.
    pub kind: &'static str,
    /// What was found, for a person.
    pub what: String,
    /// True when the piece gives no edit because of it.
    pub skipped: bool,
}

/// The lines of one edit type that one edit puts into, takes from, or overwrites in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDiff {
    /// File; empty when unknown.
    pub path: String,
    /// What happens to the lines.
    pub edit_type: EditType,
    /// The lines, in order. They need not be neighbours in the response: context lines stand between them.
    pub lines: Vec<SourceLine>,
    /// Notation of the edit it came from.
    pub format: Format,
}
