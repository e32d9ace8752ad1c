#!/usr/bin/env bash
# The tests drive a browser, run the page's engine under Node and lint the generated shells.
# Installs what is missing with apt-get when that is possible, otherwise says what to install.
set -euo pipefail

missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
command -v shellcheck >/dev/null || missing+=(shellcheck)
if [[ ${#missing[@]} -gt 0 ]]; then
  if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    echo "==> system packages: ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "The tests need ${missing[*]}. On Debian and Ubuntu: sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
node -e 'const v = +process.versions.node.split(".")[0]; if (v < 20) { console.error(`Node ${process.versions.node} is too old for the tests: 20 or newer is needed.`); process.exit(1); }'
