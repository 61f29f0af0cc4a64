"""The documentation: its links lead somewhere, its code runs, and it has every error message."""

import ast
import doctest
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from installation import ROOT, Installed, run
from markdown_it import MarkdownIt

pytest.importorskip("mindspore")

PAGES = [ROOT / "README.md", ROOT / "README_zh.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "samples").rglob("*.md"))]
NOT_RUN = ("make ", "pip ")  # lines of shell blocks that are checked otherwise: they install and build for minutes


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    tokens = MarkdownIt().parse(page.read_text())
    return [Block(page, token.map[0], token.info.strip(), token.content) for token in tokens if token.type == "fence"]


# Links


def links(page: Path) -> Iterator[str]:
    for token in MarkdownIt().enable("table").parse(page.read_text()):
        for child in token.children or ():
            if child.type == "link_open":
                yield str(child.attrs["href"])
            elif child.type == "image":
                yield str(child.attrs["src"])


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    tokens = MarkdownIt().parse(page.read_text())
    titles = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", ALL_TEXTS, ids=name)
def test_links(page: Path) -> None:
    for link in links(page):
        if re.match(r"https?://[\w.-]+", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{name(page)}: {link} leads nowhere"
        assert file.is_relative_to(ROOT), f"{name(page)}: {link} leads out of the repository"
        assert not anchor or anchor in anchors(file), f"{name(page)}: {link}: {name(file)} has no such heading"


def test_index_names_every_page() -> None:
    assert {link for link in links(ROOT / "docs/README.md") if "#" not in link} >= {
        page.name for page in PAGES if page.parent.name == "docs" and page.name != "README.md"
    }


# Code


@pytest.fixture(scope="session")
def preamble() -> str:
    """What the C fragments of all pages take for granted."""
    return """
#include <stdint.h>
#include <stdio.h>
#include "acl/acl.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "aclnnop/aclnn_fused_conv_tanh_backward.h"
extern aclTensor *x, *filter, *bias, *y;
extern aclIntArray *strides, *pads, *dilations;
extern void *workspace, *frames[3];
extern aclrtStream stream;
"""


def run_c(text: str, installed: Installed, preamble: str) -> None:
    """A program is built and run. Declarations are compiled as they are, statements inside a function."""
    if "int main(" in text:
        Path("program.c").write_text(text)
        warnings = "-std=c99 -Wall -Wextra -Wpedantic -Werror"
        build = f"eval cc {warnings} program.c $(ms-convtanh config --cflags --libs) -o program"
        run("sh", "-ec", f"{build}; ./program", env=installed.environment())
        return
    includes = "".join(line + "\n" for line in text.splitlines() if line.startswith("#include"))
    rest = "".join(line + "\n" for line in text.splitlines() if not line.startswith("#include"))
    locals_ = "".join(
        declaration
        for declaration, word in (
            ("aclnnStatus status = 0;", "aclnnStatus status"),
            ("uint64_t workspaceSize = 0;", "uint64_t workspaceSize"),
            ("aclOpExecutor *executor = NULL;", "aclOpExecutor *executor"),
        )
        if word not in rest
    )
    forms = (
        f"{preamble}{includes}{rest}",
        f"{preamble}{includes}int f(void);int f(void) {{ {locals_}\n{rest}return (int)status; }}",
    )
    errors = []
    for form in forms:
        Path("fragment.c").write_text(form)
        command = "eval cc -std=c99 -Wall -Werror -fsyntax-only fragment.c $(ms-convtanh config --cflags)"
        result = subprocess.run(["sh", "-ec", command], env=installed.environment(), capture_output=True, text=True)
        if result.returncode == 0:
            return
        errors.append(result.stderr)
    pytest.fail("\n".join(errors))


def run_cmake(text: str, installed: Installed) -> None:
    head = "cmake_minimum_required(VERSION 3.18)\nproject(sample LANGUAGES CXX)\nadd_executable(sample sample.cc)\n"
    folder = Path("cmake")
    folder.mkdir(exist_ok=True)
    (folder / "sample.cc").write_text((ROOT / "samples/c/fused_conv_tanh.cc").read_text())
    (folder / "CMakeLists.txt").write_text(head + text)
    configure = 'cmake -S cmake -B cmake/build -G Ninja -Dms_convtanh_DIR="$(ms-convtanh config --cmakedir)"'
    run("sh", "-ec", f"{configure} && cmake --build cmake/build", env=installed.environment())


def run_shell(block: Block, installed: Installed) -> None:
    lines = block.text.splitlines()
    for line in lines:
        words = line.split("#")[0].split()
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        elif words[:1] == ["pip"]:
            extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
            assert all(extra in extras for extra in re.findall(r"\[(\w+)\]", line)), line
    script = "\n".join(line for line in lines if not line.startswith(NOT_RUN))
    Path("sample.cc").write_text((ROOT / "samples/c/fused_conv_tanh.cc").read_text())
    run("sh", "-euc", script, env=installed.environment(GLOG_v="3"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code(page: Path, installed: Installed, preamble: str, plugin_cache: Path) -> None:
    """All blocks of a page in their order, in one folder; Python blocks share their names."""
    names: dict[str, object] = {}
    for block in blocks(page):
        where = f"{name(page)}:{block.line + 1}"
        if block.language == "python" and ">>>" in block.text:
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            test = doctest.DocTestParser().get_doctest(block.text, names, where, name(page), block.line)
            runner = doctest.DocTestRunner(optionflags=options)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
            assert runner.failures == 0, where
        elif block.language == "python":
            exec(compile(block.text, where, "exec"), names)
        elif block.language == "sh":
            run_shell(block, installed)
        elif block.language == "c":
            run_c(block.text, installed, preamble)
        elif block.language == "cmake":
            run_cmake(block.text, installed)
        else:
            assert block.language == "text", f"{where}: a block of {block.language!r} is not run by any test"


# Messages


def raised() -> Iterator[tuple[str, str]]:
    """Messages of the Python package: file and text, with … for what is filled in."""
    package = ROOT / "ms_convtanh"
    for path in sorted([*package.glob("*.py"), *package.glob("benchmark/*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                kind = ast.unparse(node.exc.func)
                message = node.exc.args[-1] if kind == "click.BadParameter" else node.exc.args[0]
                # These end up in a report, not as an error.
                if kind in ("Unknown", "Unsupported") or path.name == "_reference.py":
                    continue
                if isinstance(message, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else "…" for part in message.values]
                    yield path.name, "".join(map(str, parts))
                elif isinstance(message, ast.Constant):
                    yield path.name, str(message.value)


def failed() -> Iterator[tuple[str, str]]:
    """Messages of the C library, likewise: the first string with a blank in each call of fail() and invalid()."""
    strings = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
    for path in sorted((ROOT / "aclnn/src").glob("*.cc")):
        text = path.read_text()
        for call in re.finditer(r"\b(?:fail|invalid)\(", text):
            for literal in strings.findall(text, call.end(), text.find(";", call.end())):
                whole = "".join(ast.literal_eval(part) for part in re.findall(r'"(?:[^"\\\n]|\\.)*"', literal))
                if " " in whole:
                    yield path.name, re.sub(r"%(?:zu|lld|[a-z])", "…", whole)
                    break


def test_troubleshooting_has_every_message() -> None:
    """By the longest piece of each that is always the same."""
    page = re.sub(r"\\(.)", r"\1", (ROOT / "docs/troubleshooting.md").read_text())
    messages = {*raised(), *failed()}
    assert len(messages) > 100
    missing = []
    for file, message in sorted(messages):
        piece = max(re.split("…", message), key=len).strip(" :,'\"")
        if len(piece) >= 8 and piece not in page:
            missing.append(f"{file}: {message}")
    assert not missing, "docs/troubleshooting.md lacks:\n" + "\n".join(missing)


def test_readmes_say_the_same() -> None:
    """The Chinese README has the code, the headings and the tables of the English one, without the measured part."""
    english, chinese = ROOT / "README.md", ROOT / "README_zh.md"
    codes = [[re.sub(r"\s*#[^\n]*", "", block.text) for block in blocks(page)] for page in (english, chinese)]
    assert codes[0] == codes[1]
    texts = [
        re.sub("<!-- bench:begin -->.*?<!-- bench:end -->", "", page.read_text(), flags=re.DOTALL)
        for page in (english, chinese)
    ]
    headings = [re.findall(r"^#+(?= )", text, re.MULTILINE) for text in texts]
    assert headings[0] == headings[1]
    rows = [re.findall(r"^\|.*\|$", text, re.MULTILINE) for text in texts]
    for one, other in zip(*rows, strict=True):
        assert re.findall(r"\d+\.\d+", one) == re.findall(r"\d+\.\d+", other), other
