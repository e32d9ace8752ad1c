"""Build both language trees of the documentation and serve them on this machine.

python -m sphinx_slime_lab.site build    write _site/zh, _site/en and _site/index.html; warnings are errors
python -m sphinx_slime_lab.site serve    serve _site on 127.0.0.1 and print the address
python -m sphinx_slime_lab.site lab      build, then serve

``build --version 1.0`` writes _site/1.0/zh and _site/1.0/en instead. Build the versions first and the latest last: its
pages then lead to _site/versions.html, which lists them all. ``SLIME_DOC_BASEURL`` is the public address of the site;
with it pages name the latest version as canonical, and there is a sitemap.
"""

from __future__ import annotations

import argparse
import errno
import functools
import http.server
import os
import re
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

from sphinx_slime_lab import site_files, site_redirects
from sphinx_slime_lab.languages import LATEST
from sphinx_slime_lab.locale import LANGUAGES

DEFAULT_PORT = 8000
PORTS_TRIED = 20


class SiteError(RuntimeError):
    """The site cannot be built or served; the message says why and what to do."""


def build(root: Path, output: Path, jobs: str = "auto", version: str = "") -> None:
    """Build every language into ``output/<language>``, or of a version into ``output/<version>/<language>``.

    Raises ``SiteError`` on any warning, on a wrong name of a version, and on a wrong row of the redirects.
    """
    if version and (version in (*LANGUAGES, LATEST) or not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.+-]*", version)):
        raise SiteError(
            f"{version!r} cannot be the folder of a version: use letters, digits, dots and dashes, as in 1.0"
        )
    base = os.environ.get("SLIME_DOC_BASEURL", "")
    if base and not re.fullmatch(r"https?://[^/]+/(.*/)?", base):
        raise SiteError(f"SLIME_DOC_BASEURL is {base!r}: it must start with http(s):// and end with a slash")
    folder = output / version
    try:
        table = site_redirects.read(root / "docs" / site_redirects.TABLE)
        for language in LANGUAGES:
            _build_tree(root, folder, language, jobs, version)
            left_out = site_redirects.write(table, folder / language, language, f"{base}{language}/" if base else "")
    except site_redirects.RedirectError as error:
        raise SiteError(f"{site_redirects.TABLE}: {error}") from None
    listed = site_files.versions(output, left_out)
    site_files.write_versions(output, listed)
    if not version:
        site_files.write_entry(output)
        site_files.write_not_found(output, base)
        if base:
            site_files.write_sitemap(output, listed[0], base)
    print(f"==> site: {folder / 'index.html' if not version else folder}", flush=True)


def _build_tree(root: Path, folder: Path, language: str, jobs: str, version: str) -> None:
    """Run Sphinx on one language; ``folder`` is the output, or that of a version inside it."""
    print(f"==> {language}: building {folder / language}", flush=True)
    output = folder.parent if version else folder
    command = [
        sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-j", jobs, "-c", str(root),
        "-d", str(output / ".doctrees" / version / language), str(root / "docs" / language), str(folder / language),
    ]  # fmt: skip
    others = any(output.glob("*/en/index.html"))
    switch = {"SLIME_DOC_VERSION": version or LATEST} if version or others else {}
    done = subprocess.run(command, env={**os.environ, "SLIME_DOC_LANG": language, **switch}, check=False)
    if done.returncode:
        raise SiteError(f"the {language} tree has warnings or errors (exit {done.returncode}); they are printed above")


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and the site's own page where there is none; prints errors only."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer an unknown address with ``404.html``."""
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.log_error("code %d, %s", code, self.path)
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing about requests that succeed."""


def open_server(folder: Path, port: int, tries: int = PORTS_TRIED) -> http.server.ThreadingHTTPServer:
    """Bind 127.0.0.1 at ``port`` or the next free one. Raises ``SiteError`` when none of ``tries`` ports is free."""
    if not (folder / "index.html").is_file():
        raise SiteError(f"{folder} has no index.html: build the site first (python -m sphinx_slime_lab.site build)")
    handler = functools.partial(_QuietHandler, directory=str(folder))
    for candidate in range(port, min(port + tries, 65536)):
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", candidate), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise SiteError(f"cannot listen on 127.0.0.1:{candidate}: {error.strerror}") from error
            print(f"port {candidate}: {error.strerror}", file=sys.stderr)
    raise SiteError(f"ports {port} to {port + tries - 1} are taken: stop one of their programs or give another --port")


def serve(folder: Path, port: int) -> None:
    """Serve until Ctrl-C."""
    with open_server(folder, port) as server:
        print(f"==> http://127.0.0.1:{server.server_address[1]}/  (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m sphinx_slime_lab.site", description=__doc__.split("\n", 1)[0])
    parser.add_argument("command", choices=("build", "serve", "lab"))
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="folder of conf.py (default: here)")
    parser.add_argument("--output", type=Path, help="folder of the site (default: _site in the root)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="first port to try (default: %(default)s)")
    parser.add_argument("--version", default="", help="build this version's folder in place of the latest")
    parser.add_argument("--jobs", default="auto", help="parallel jobs of Sphinx (default: %(default)s)")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    output = (options.output or root / "_site").resolve()
    try:
        if options.command != "serve":
            if not (root / "conf.py").is_file():
                raise SiteError(f"{root} has no conf.py: run this from the repository, or give --root")
            build(root, output, options.jobs, options.version)
        if options.command != "build":
            serve(output, options.port)
    except SiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
