"""Build both language trees of the documentation and serve them on this machine.

python -m sphinx_slime_lab.site build    write _site/zh, _site/en and _site/index.html; warnings are errors
python -m sphinx_slime_lab.site serve    serve _site on 127.0.0.1 and print the address
python -m sphinx_slime_lab.site lab      build, then serve
"""

from __future__ import annotations

import argparse
import errno
import functools
import http.server
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from sphinx_slime_lab.locale import LANGUAGES

DEFAULT_PORT = 8000
PORTS_TRIED = 20


class SiteError(RuntimeError):
    """The site cannot be built or served; the message says why and what to do."""


def build(root: Path, output: Path, jobs: str = "auto") -> None:
    """Build every language into ``output/<language>`` and the entry page. Raises ``SiteError`` on any warning."""
    for language in LANGUAGES:
        print(f"==> {language}: building {output / language}", flush=True)
        command = [
            sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-j", jobs, "-c", str(root),
            "-d", str(output / ".doctrees" / language), str(root / "docs" / language), str(output / language),
        ]  # fmt: skip
        done = subprocess.run(command, env={**os.environ, "SLIME_DOC_LANG": language}, check=False)
        if done.returncode:
            raise SiteError(
                f"the {language} tree has warnings or errors (exit {done.returncode}); they are printed above"
            )
    write_entry(output)
    print(f"==> site: {output / 'index.html'}", flush=True)


def write_entry(output: Path) -> None:
    """Write ``index.html``, which leads to the reader's language, and its script; plain links serve without scripts."""
    templates = files("sphinx_slime_lab").joinpath("templates/slime_lab")
    output.mkdir(parents=True, exist_ok=True)
    for source, name in {"entry.html": "index.html", "entry.js": "entry.js"}.items():
        text = templates.joinpath(source).read_text(encoding="utf-8")
        (output / name).write_text(text, encoding="utf-8", newline="\n")


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files; prints errors only."""

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
    parser.add_argument("--jobs", default="auto", help="parallel jobs of Sphinx (default: %(default)s)")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    output = (options.output or root / "_site").resolve()
    try:
        if options.command != "serve":
            if not (root / "conf.py").is_file():
                raise SiteError(f"{root} has no conf.py: run this from the repository, or give --root")
            build(root, output, options.jobs)
        if options.command != "build":
            serve(output, options.port)
    except SiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
