"""The pages of docs/ and the READMEs: links lead somewhere, what is named exists, docs/decisions.md stays short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ["benchmarks", "docs", "examples", "scalec", "tests", "typings"]
PAGES = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")))]
SOURCES = [f"/{p.relative_to(ROOT)}" for p in (ROOT / "scalec").rglob("*.py")]
DECISIONS = ROOT / "docs" / "decisions.md"
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
LONGEST_ROW = 400
LONGEST_NOTE = 500


def links(page: Path) -> list[str]:
    """The targets of a page's links, but for those of the web and what is code."""
    prose = re.sub(r"^```.*?^```$|^    [^\n]*$|`[^`]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [to for to in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in to]


def anchors(page: Path) -> set[str]:
    """What a page's headings are linked by: small letters, digits, and a hyphen for each blank."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    to = (page.parent / path).resolve() if path else page
    return to.exists() and (not anchor or anchor in anchors(to))


def file_exists(path: str) -> bool:
    """From the root, or as the end of one of scalec/: `emit/results.py`."""
    return (ROOT / path).exists() or any(source.endswith(f"/{path}") for source in SOURCES)


def module_has(dotted: str) -> bool:
    """`scalec.model.predict.Prediction`: a word of scalec/model/predict.py, or a module."""
    module, *names = dotted.split(".")
    at = ROOT / module
    while names and ((at / names[0]).is_dir() or (at / f"{names[0]}.py").exists()):
        at /= names.pop(0)
    source = at / "__init__.py" if at.is_dir() else at.with_suffix(".py")
    return not names or re.search(rf"\b{names[0]}\b", source.read_text()) is not None


def test_a_decision_is_three_short_cells() -> None:
    rows = [line for line in DECISIONS.read_text().splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [row for row in rows if len(row) > LONGEST_ROW] == [], "the evidence goes into a note of docs/notes"
    assert [row for row in rows if len(re.split(r"(?<!\\)\|", row)) != 5] == []


def test_each_table_of_decisions_names_its_evidence_and_each_note_is_named() -> None:
    sections = DECISIONS.read_text().split("\n## ")[1:]
    assert [s.splitlines()[0] for s in sections if "](notes/" not in s] == []
    assert {DECISIONS.parent / to.partition("#")[0] for to in links(DECISIONS) if to.startswith("notes/")} == {*NOTES}
    assert [note.name for note in NOTES if len(note.read_text().splitlines()) >= LONGEST_NOTE] == []


def test_links_lead_somewhere() -> None:
    found = [(page, link) for page in PAGES for link in links(page)]
    assert len(found) > 50
    assert [f"{page.relative_to(ROOT)}: {link}" for page, link in found if not leads_somewhere(page, link)] == []


def test_files_and_modules_that_are_named_exist() -> None:
    texts = [(page, page.read_text()) for page in PAGES]
    files = [(page, path) for page, text in texts for path in re.findall(r"(?<![\w./*-])(?:\w+/)+\w+\.py\b", text)]
    modules = [(page, name) for page, text in texts for name in re.findall(r"\bscalec(?:\.\w+)+", text)]
    assert len(files) > 50
    assert len(modules) > 20
    missing = [(page, path) for page, path in files if not file_exists(path)]
    missing += [(page, name) for page, name in modules if not module_has(name)]
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in missing] == []
