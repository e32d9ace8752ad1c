// What the JavaScript tests share: catalogue, cases and tables, which Python reads from YAML.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const local = `${root}.venv/bin/python`;
const python = process.env.PYTHON ?? (existsSync(local) ? local : "python3");

export const corpus = JSON.parse(
  execFileSync(python, ["tests/experiment/corpus.py"], {
    cwd: root,
    env: { ...process.env, PYTHONPATH: root },
    maxBuffer: 64 * 1024 * 1024,
    encoding: "utf-8",
  }),
);
