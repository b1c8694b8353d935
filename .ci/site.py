"""Build docs/ as a site in build/site/, and fail if a page asks another host or leads nowhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from os.path import relpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
ASKED = {"src", "srcset", "data", "poster"}
"""Attributes whose address a browser fetches by itself; `href` is one in all tags but `a`."""


def links(page: Path) -> Iterator[Path]:
    """The pages of docs/ to which a page leads, in its order."""
    for found in LINK.finditer(page.read_text(encoding="utf-8")):
        target = (page.parent / found[3]).resolve()
        if target.suffix == ".md" and target.is_relative_to(DOCS) and target != page:
            yield target


def navigation() -> list[dict[str, object]]:
    """The sections of index.md, each with its pages, and those to which only these lead."""
    seen = {DOCS / "index.md"}

    def pages(targets: Iterable[Path]) -> Iterator[str | dict[str, object]]:
        for target in targets:
            if target in seen:
                continue
            seen.add(target)
            page = target.relative_to(DOCS).as_posix()
            folder = target.parent if target.stem == "index" else target.with_suffix("")
            below = list(pages(one for one in links(target) if folder in one.parents))
            title = target.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
            yield {title: [page, *below]} if below else page

    index = (DOCS / "index.md").read_text(encoding="utf-8")
    sections: list[dict[str, object]] = [{"Overview": "index.md"}]
    for title, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", index, re.MULTILINE):
        named = ((DOCS / found[3]).resolve() for found in LINK.finditer(text))
        here = list(pages(page for page in named if page.suffix == ".md"))
        if here:
            sections.append({title: here[0] if len(here) == 1 else here})
    if missing := {*DOCS.rglob("*.md")} - seen:
        sys.exit(f"no page leads from docs/index.md to {', '.join(sorted(map(str, missing)))}")
    return sections


def stage(folder: Path) -> None:
    """Copy docs/ there; a file beside it comes along, and any other link out of it is text."""
    pages = folder / "pages"
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("zensical.toml"))

    def within(page: Path, found: re.Match[str]) -> str:
        target = (page.parent / found[3]).resolve()
        if urlsplit(found[3]).scheme or target.is_relative_to(DOCS):
            return found[0]
        if target.suffix == ".md" or not target.is_file():
            return found[2]
        copy = pages / "files" / target.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copy)
        place = relpath(copy, (pages / page.relative_to(DOCS)).parent)
        return f"{found[1]}[{found[2]}]({place})"

    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = LINK.sub(lambda found, page=page: within(page, found), text)
        (pages / page.relative_to(DOCS)).write_text(text, encoding="utf-8")
    settings = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    nav = json.dumps(navigation()).replace('": ', '" = ')
    settings = settings.replace("[project]\n", f"[project]\nnav = {nav}\n", 1)
    (folder / "zensical.toml").write_text(settings, encoding="utf-8")


class Page(HTMLParser):
    """What a page fetches, to where it leads, the places in it, and what was left as text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.leads: list[str] = []
        self.places = {""}
        self.left: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["p"]:
            self.left += re.findall(r"^(?:- |\d+\. |```|[-| ]*---\|).*", data, re.MULTILINE)

    def handle_endtag(self, tag: str) -> None:
        if self.open[-1:] == [tag]:
            self.open.pop()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"p", "pre", "code"}:
            self.open.append(tag)
        for name, value in attrs:
            if name in ASKED or (name == "href" and tag != "a"):
                self.fetched.append(value or "")
            elif name == "href":
                self.leads.append(value or "")
            elif name == "id":
                self.places.add(value or "")
            elif name == "class" and "mermaid" in (value or "").split():
                self.fetched.append("https: a script that draws Mermaid")


def faults(site: Path) -> Iterator[str]:
    """Where pages ask another host, or lead to what is not there."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for address in page.fetched:
            if re.match(r"(https?:)?//|https:", address):
                yield f"{path.relative_to(site)} fetches {address}"
        for line in page.left:
            yield f"{path.relative_to(site)} has a list, a table or a block that is text: {line}"
        for address in page.leads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            # The page for what is not there names all others from the root of the site.
            base, name = (
                (site, parts.path[1:]) if parts.path[:1] == "/" else (path.parent, parts.path)
            )
            target = (base / unquote(name)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.is_file() and unquote(parts.fragment) in getattr(
                pages.get(target), "places", {parts.fragment}
            )
            if not is_there:
                yield f"{path.relative_to(site)} leads to {address}, which is not there"
    for path in site.rglob("*.css"):
        if found := re.search(
            r"(url\(|@import)\s*['\"]?(https?:)?//[^)]*", path.read_text("utf-8")
        ):
            yield f"{path.relative_to(site)} fetches {found[0]}"


def main() -> int:
    folder = ROOT / "build/site"
    shutil.rmtree(folder, ignore_errors=True)
    stage(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f"]
    if subprocess.run([*command, str(folder / "zensical.toml")], check=False).returncode:
        return 1
    for page in (folder / "pages").rglob("*.md"):  # for those who read llms.txt
        shutil.copy(page, folder / "site" / page.relative_to(folder / "pages"))
    found = list(faults(folder / "site"))
    print(*found, f"{len(found)} faults in {folder / 'site'}", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
