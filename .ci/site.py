"""Hooks of mkdocs.yml: README.md, CHANGELOG.md and CONTRIBUTING.md are pages of the site, and other files of the
repository to which the pages link are a part of it. The search finds Chinese words too."""

import glob
import json
import os
import re
import shutil

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_config(config):
    """A page that mkdocs.yml does not name stands at the end of the menu's last part."""
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


def on_page_content(html, page, config, files):
    """Flags within a sentence are marked for site.css."""

    def mark(code):
        return re.sub(r"(?<![^\s>(|])(--?\w[\w-]*)", r'<span class="flag">\1</span>', code[0])

    return re.sub(r"(?<!<pre>)<code>[^<]*</code>", mark, html)


def on_post_build(config):
    add_chinese(os.path.join(config["site_dir"], "search"))
    add_scripts(os.path.join(config["site_dir"], "js"))


def add_chinese(folder):
    """The search loads lunr.LANGUAGE.js for a language other than English, behind a script that all languages need but
    this one."""
    shutil.copy(os.path.join(ROOT, ".ci", "search.js"), os.path.join(folder, "lunr.zh.js"))
    open(os.path.join(folder, "lunr.stemmer.support.js"), "w").close()
    path = os.path.join(folder, "search_index.json")
    with open(path, encoding="utf-8") as file:
        index = json.load(file)
    index["config"]["lang"] = ["zh"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(index, file)


def add_scripts(scripts):
    """In Debian 12 the theme's pages name two scripts that the package lacks: its jQuery has a file of another name, and
    the other script only adds classes to tables, which site.css does not need."""
    jquery, extra = os.path.join(scripts, "jquery-3.6.0.min.js"), os.path.join(scripts, "theme_extra.js")
    if not os.path.exists(jquery):
        shutil.copy(glob.glob(os.path.join(scripts, "jquery-*.min.js"))[0], jquery)
    if not os.path.exists(extra):
        open(extra, "w").close()
