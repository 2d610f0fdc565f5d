"""The repository's pages of Markdown: which there are, their links, and tables put into them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def find_pages(root: Path) -> list[Path]:
    """Return the README and its neighbors, then the pages of `docs/`, `.github/`, `packaging/`."""
    neighbors = sorted(set(root.glob("*.md")) - {root / "README.md"})
    places = ("docs/*.md", "docs/measured/*.md", ".github/*.md", "packaging/*/*.md")
    others = (page for place in places for page in sorted(root.glob(place)))
    return [root / "README.md", *neighbors, *others]


def find_broken_links(page: Path) -> list[str]:
    """Return the links of a page to files or headings that do not exist; the web is not asked."""
    links = _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in links if "://" not in link and not _leads_somewhere(page, link)]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists():
        return False
    return not anchor or anchor in find_anchors(target.read_text(encoding="utf-8"))


def find_anchors(text: str) -> set[str]:
    """Return what GitHub names a page's headings: lower case, hyphens for spaces, no marks."""
    headings = _HEADING.findall(_CODE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def fill_tables(page: str, mark: str, tables: Mapping[str, Sequence[str]]) -> str:
    """Return a page with these tables between their marks, `<!-- MARK: NAME -->` and the end."""
    for name, lines in tables.items():
        place = re.compile(rf"(<!-- {mark}: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        if (found := place.search(page)) is not None:
            text = "\n".join(lines)
            filled = f"{found[1]}\n{text}\n\n{found[2]}"
            page = page[: found.start()] + filled + page[found.end() :]
    return page
