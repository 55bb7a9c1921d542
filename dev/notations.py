"""Edits written in each notation; used by convert_data.py.

`write(edit, notation, form)` gives (notation used, text, number of pieces). `form` is a number that picks among the
spellings of one notation. A writer returns None for what its notation cannot say; then a unified diff (for patches) or
a tool call (for the others) takes its place: both can say everything.
"""

import difflib
import json
import re

NAMES = ["xml", "fence", "unified", "search-replace", "apply-patch", "tool-call"]
LANGUAGES = {"py": "python", "rs": "rust", "java": "java", "js": "javascript", "sh": "bash", "md": "markdown"}


def lines_of(text):
    """Lines split at line feeds alone; a carriage return stays."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def ended(text):
    return text if not text or text.endswith("\n") else text + "\n"


def fence_around(text):
    """A run of backticks longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def language(path):
    return LANGUAGES.get(path.rsplit(".", 1)[-1], "")


# Patches taken apart


def parse_patch(text):
    """Files of a plain patch as [(path, new file?, [(section, [(prefix, line)])])]; None when it says more than that.

    Counts in the hunk headers decide where a hunk ends. A rename, a mode, a binary or a removed file, a count that is
    wrong: all give None, and the caller keeps the patch as it is.
    """
    files, hunks, need = [], None, (0, 0)
    lines = lines_of(text)
    for number, line in enumerate(lines):
        old, new = need
        if old > 0 or new > 0:
            prefix = line[:1] or " "
            if prefix == "\\":
                return None
            need = (old - (prefix in " -"), new - (prefix in " +"))
            if prefix not in " +-" or min(need) < 0:
                return None
            hunks[-1][1].append((prefix, line[1:]))
        elif line.startswith("--- ") and number + 1 < len(lines) and lines[number + 1].startswith("+++ "):
            old_path, new_path = (side[4:].split("\t")[0] for side in (line, lines[number + 1]))
            if new_path == "/dev/null" or '"' in new_path:
                return None
            path = re.sub("^b/", "", new_path)
            if old_path != "/dev/null" and re.sub("^a/", "", old_path) != path:
                return None
            hunks = []
            files.append((path, old_path == "/dev/null", hunks))
        elif header := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@ ?(.*)", line):
            if hunks is None:
                return None
            need = tuple(1 if n is None else int(n) for n in header.group(1, 2))
            hunks.append((header[3], []))
        elif line and not line.startswith(("diff --git ", "index ", "+++ ")):
            return None
    if max(need) > 0 or not files or not all(hunks for _, _, hunks in files):
        return None
    return files


def old_side(hunk):
    return "".join(line + "\n" for prefix, line in hunk if prefix != "+")


def new_side(hunk):
    return "".join(line + "\n" for prefix, line in hunk if prefix != "-")


def diff_lines(old, new):
    """One hunk that turns the old lines into the new ones: [(prefix, line)]."""
    a, b = lines_of(old), lines_of(new)
    hunk = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            hunk += [(" ", line) for line in a[i:i_end]]
        else:
            hunk += [("-", line) for line in a[i:i_end]] + [("+", line) for line in b[j:j_end]]
    return hunk


def simple(edit):
    """The edit as [(path, old or None for a whole file, new)], or None."""
    if edit["kind"] == "file":
        return [(edit["path"], None, edit["text"])]
    if edit["kind"] == "search_replace":
        return [(edit["path"], edit.get("old") or "", edit["text"])]
    files = parse_patch(edit["text"])
    if files is None:
        return None
    changes = []
    for path, is_new, hunks in files:
        if is_new:
            changes.append((path, None, "".join(new_side(hunk) for _, hunk in hunks)))
        else:
            changes += [(path, old_side(hunk), new_side(hunk)) for _, hunk in hunks]
    return changes


# One writer a notation: text of the edit and number of pieces, or None


def xml(edit, form):
    changes = simple(edit)
    if changes is None:
        return None
    parts = []
    for path, old, new in changes:
        if re.search(r"</?(edit|search|replace|old|new|insert|code)\b", (old or "") + new) or '"' in path:
            return None
        if old is None:
            body = f"<code>\n{ended(new)}</code>"
        elif old == "" and form % 2:
            body = f"<insert>\n{ended(new)}</insert>"
        else:
            a, b = (("search", "replace"), ("old", "new"))[form % 2]
            body = f"<{a}>\n{ended(old)}</{a}>\n<{b}>\n{ended(new)}</{b}>"
        parts.append(f'<edit path="{path}">\n{body}\n</edit>')
    return "\n\n".join(parts), len(parts)


def fence(edit, form):
    if edit["kind"] == "patch":
        return unified(edit, 0)
    if edit["kind"] == "search_replace":
        return search_replace(edit, 2)
    path, text = edit["path"], ended(edit["text"])
    mark = fence_around(text)
    spaced = " " in path or not path
    if form % 3 == 0 and not spaced:
        return f"{mark}{language(path) or 'text'} {path}\n{text}{mark}", 1
    if form % 3 == 1 and not spaced:
        return f"{mark}{language(path) or 'text'} title=\"{path}\"\n{text}{mark}", 1
    return f"**{path}**\n{mark}{language(path)}\n{text}{mark}", 1


def unified(edit, form):
    if edit["kind"] == "patch":
        text = ended(edit["text"])
    else:
        path, new = edit["path"], edit["text"]
        is_file = edit["kind"] == "file"
        hunk = diff_lines("" if is_file else edit.get("old") or "", new)
        if not hunk:
            return None
        n_old, n_new = (sum(prefix != other for prefix, _ in hunk) for other in "+-")
        head = f"--- /dev/null\n+++ b/{path}" if is_file else f"--- a/{path}\n+++ b/{path}"
        body = "".join(f"{prefix}{line}\n" for prefix, line in hunk)
        text = f"{head}\n@@ -{min(1, n_old)},{n_old} +{min(1, n_new)},{n_new} @@\n{body}"
        if is_file and not new.endswith("\n"):
            text += "\\ No newline at end of file\n"
    if form % 2 and "`" not in text:
        return text.removesuffix("\n"), 1
    mark = fence_around(text)
    return f"{mark}diff\n{text}{mark}", 1


def search_replace(edit, form):
    changes = simple(edit)
    if changes is None:
        return None
    parts = []
    for path, old, new in changes:
        if re.search(r"^(<{5,9}|={5,9}|>{5,9})", (old or "") + "\n" + new, re.MULTILINE):
            return None
        block = f"<<<<<<< SEARCH\n{ended(old or '')}=======\n{ended(new)}>>>>>>> REPLACE"
        if form % 3:
            mark = fence_around(block)
            block = f"{mark}{language(path)}\n{block}\n{mark}"
        parts.append(f"{path}\n{block}")
    return "\n\n".join(parts), len(parts)


def apply_patch(edit, form):
    parts = []
    if edit["kind"] == "patch":
        files = parse_patch(edit["text"])
        if files is None:
            return None
    elif edit["kind"] == "file":
        files = [(edit["path"], True, [("", diff_lines("", edit["text"]))])]
    else:
        hunk = diff_lines(edit.get("old") or "", edit["text"])
        if not hunk:
            return None
        files = [(edit["path"], False, [("", hunk)])]
    for path, is_new, hunks in files:
        parts.append(f"*** {'Add' if is_new else 'Update'} File: {path}")
        for section, hunk in hunks:
            if not is_new:
                parts.append(f"@@ {section}".rstrip())
            parts += [prefix + line for prefix, line in hunk]
    text = "\n".join(["*** Begin Patch", *parts, "*** End Patch"])
    if form % 2:
        mark = fence_around(text)
        text = f"{mark}\n{text}\n{mark}"
    return text, len(files)


def tool_call(edit, form):
    changes = simple(edit)
    if changes is None:
        return None
    parts = []
    for path, old, new in changes:
        if old is None:
            arguments = {"command": "create", "path": path, "file_text": new}
        elif old == "" and form % 4 == 3:
            arguments = {"command": "insert", "path": path, "insert_line": 1, "insert_text": new}
        else:
            arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
        ascii_only = form % 2 == 0
        if form % 3 == 0:
            call = {"name": "str_replace_editor", "arguments": arguments}
        elif form % 3 == 1:
            spelled = json.dumps(arguments, ensure_ascii=ascii_only)
            call = {"type": "function", "function": {"name": "str_replace_editor", "arguments": spelled}}
        else:
            call = {"type": "tool_use", "name": "str_replace_based_edit_tool", "input": arguments}
        text = json.dumps(call, ensure_ascii=ascii_only)
        parts.append(f"<tool_call>\n{text}\n</tool_call>" if form % 4 < 2 else text)
    return "\n".join(parts), len(parts)


WRITERS = dict(zip(NAMES, [xml, fence, unified, search_replace, apply_patch, tool_call]))


def write(edit, notation, form):
    """(notation used, text, number of pieces); see the head of this file."""
    made = WRITERS[notation](edit, form)
    if made is None:
        notation = "unified" if edit["kind"] == "patch" else "tool-call"
        made = WRITERS[notation](edit, form)
    return notation, *made
