"""Hooks of mkdocs.yml: README.md and CONTRIBUTING.md are pages of the site, and other files of the repository to which
the pages link are a part of it."""

import os
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "CONTRIBUTING.md"]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


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
    folder = "" if page.src_uri in PAGES else "docs"
    return os.path.normpath(os.path.join(folder, target))


def on_page_markdown(markdown, page, config, files):
    """The site has the files of docs/ and those of the repository's root in one folder. A folder has no page."""

    def mend(found):
        path = path_in_repository(page.file, found[1])
        if path.startswith("docs/"):
            path = path[len("docs/") :]
        return f"]({path}{found[2] or ''})"

    for name, target in re.findall(r"\[([^]]*)\]\(([^)\s:#]+)\)", markdown):
        if os.path.isdir(os.path.join(ROOT, path_in_repository(page.file, target))):
            markdown = markdown.replace(f"[{name}]({target})", f"`{name}`")
    return LINK.sub(mend, markdown)
