//! Edits: what a response says to change, found in its text with exact byte ranges, and the root diffs they make.

use std::ops::Range;

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
    /// Text replaced by other text.
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
    },
    /// A whole file.
    Write {
        /// Its new content.
        new: Vec<SourceLine>,
    },
    /// Hunks of a diff.
    Hunks(Vec<Hunk>),
    /// A change without text: rename, copy, mode, binary, removal of a file, with its name.
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
