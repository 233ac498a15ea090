"""Hooks of mkdocs.yml: README.md, CHANGELOG.md and CONTRIBUTING.md are pages of the site, and other files of the
repository to which the pages link are a part of it. The search finds Chinese words too."""

import glob
import os
import re
import shutil

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_config(config):
    """A page that mkdocs.yml does not name stands at the end of the menu's last part. Each page names the version."""
    with open(os.path.join(ROOT, "include", "cspeed", "cspeed.h"), encoding="utf-8") as header:
        config["copyright"] = "cspeed " + re.search(r'CS_VERSION "([^"]*)"', header.read())[1]
    named = {name for part in config["nav"] for pages in part.values() if isinstance(pages, list) for page in pages
             for name in page.values()}
    found = {os.path.basename(path) for path in glob.glob(os.path.join(config["docs_dir"], "*.md"))}
    [last] = config["nav"][-1].values()
    last.extend(sorted(found - named))
    return config


def on_files(files, config):
    for name in PAGES:
        files.append(File(name, ROOT, config["site_dir"], config["use_directory_urls"]))
    linked = set()
    for page in files.documentation_pages():
        with open(page.abs_src_path, encoding="utf-8") as text:
            linked |= {path_in_repository(page, found[1]) for found in LINK.finditer(text.read())}
    for path in sorted(linked):
        if os.path.isfile(os.path.join(ROOT, path)) and not path.startswith("docs/") and path not in PAGES:
            files.append(File(path, ROOT, config["site_dir"], config["use_directory_urls"]))
    return files


def path_in_repository(page, target):
    return os.path.relpath(os.path.join(os.path.dirname(page.abs_src_path), target), ROOT)


def on_page_markdown(markdown, page, config, files):
    """The site has the files of docs/ and those of the repository's root in one folder. A folder has no page. The name of
    a file that the commands of a page use stands above its text."""

    def mend(found):
        path = path_in_repository(page.file, found[1])
        path = os.path.relpath(path.removeprefix("docs/"), os.path.dirname(page.file.src_uri) or ".")
        return f"]({path}{found[2] or ''})"

    for name, target in re.findall(r"\[([^]]*)\]\(([^)\s:#]+)\)", markdown):
        if os.path.isdir(os.path.join(ROOT, path_in_repository(page.file, target))):
            markdown = markdown.replace(f"[{name}]({target})", f"`{name}`")
    markdown = re.sub(r"<!-- file: (\S+) -->\n```(\w*)", lambda file: f'```{file[2] or "text"} title="{file[1]}"', markdown)
    return LINK.sub(mend, markdown)


def on_page_content(html, page, config, files):
    """Flags within a sentence are marked, and each cell of a table has the title of its column, for site.css.
    Pictures become a part of the page."""

    def mark(code):
        return re.sub(r"(?<![^\s>(|])(--?\w[\w-]*)", r'<span class="flag">\1</span>', code[0])

    html = re.sub(r"(?<!<pre>)(?<!</span>)<code>[^<]*</code>", mark, html)
    html = re.sub(r"<table>.*?</table>", name_cells, html, flags=re.DOTALL)
    return re.sub(r'<p><img alt="[^"]*" src="([^"]*\.svg)" /></p>', insert_picture, html)


def name_cells(table):
    titles = [re.sub(r"<[^>]*>", "", title) for title in re.findall(r"<th[^>]*>(.*?)</th>", table[0])]
    rows = re.split(r"(?=<tr>)", table[0])
    for number, row in enumerate(rows):
        column = iter(titles)
        rows[number] = re.sub(r"<td", lambda cell: f'<td data-title="{next(column, "")}"', row)
    return "".join(rows)


def insert_picture(image):
    """A figure within the page follows the colours that the reader chooses for the site, not only those of the system."""
    with open(os.path.join(ROOT, "docs", image[1]), encoding="utf-8") as file:
        svg = file.read()
    return f'<div class="picture">{svg}</div>' if 'class="figure"' in svg else image[0]


def on_post_build(config):
    """Puts search.js in the place of lunr's language zh."""
    folder = os.path.join(config["site_dir"], "assets", "javascripts", "lunr", "min")
    shutil.copy(os.path.join(ROOT, ".ci", "search.js"), os.path.join(folder, "lunr.zh.min.js"))
