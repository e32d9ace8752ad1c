"""The parts of a lab: choices, totals, findings, layout, files."""

from __future__ import annotations

from docutils import nodes

from slime.experiment.validation import Finding
from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.render.svg import draw
from sphinx_slime_lab.render.tables import bullets, code, reference, separated, table
from sphinx_slime_lab.workbench import Experiment, Workbench

_TOTALS = ("train_gpus", "rollout_gpus", "ray_gpus", "engines", "dp")
_FILE_LANGUAGES = {".sh": "bash", ".yaml": "yaml", ".json": "json"}


def live(bench: Workbench, experiment: Experiment, uid: str, docname: str) -> ours.lab_live:
    """Return picture, totals, findings and the picture's facts as a table."""
    language = bench.language
    picture = ours.lab_picture(svg=draw(experiment.layout, uid, language), css="slime-lab__picture")
    return ours.lab_live(
        "",
        picture,
        ours.lab_block("", totals(experiment, language), kind="totals"),
        ours.lab_block("", *findings(bench, experiment, docname), kind="findings"),
        details("layout", word(language, "picture_table"), layout_table(experiment, language)),
    )


def details(kind: str, title: str, *children: nodes.Node) -> ours.lab_details:
    """Return a part that opens on demand."""
    return ours.lab_details("", ours.lab_summary("", title), *children, kind=kind)


def totals(experiment: Experiment, language: Language) -> nodes.bullet_list:
    """Return the accounting, one number an item; a CPU recipe counts processes."""
    numbers = experiment.accounting
    cpu = experiment.device == "cpu"
    items = []
    for key in _TOTALS:
        label = word(language, key_word(key, cpu))
        items.append([nodes.Text(f"{label} "), nodes.strong("", str(getattr(numbers, key)))])
    return bullets(items, "totals-list")


def key_word(key: str, cpu: bool) -> str:
    """Return the word of an accounting entry: ``train_gpus`` -> ``gpus_train`` or ``processes_train``."""
    if not key.endswith("_gpus"):
        return key
    return f"{'processes' if cpu else 'gpus'}_{key.removesuffix('_gpus')}"


def findings(bench: Workbench, experiment: Experiment, docname: str) -> list[nodes.Node]:
    """Return errors and notes as the engine orders them, then what the runtime does not run yet, by name."""
    language = bench.language
    result: list[nodes.Node] = []
    if not experiment.errors:
        result.append(nodes.paragraph("", word(language, "no_errors"), classes=["slime-lab__ok"]))
    told = [one for one in experiment.findings if one.severity != "planned"]
    if told:
        result.append(_finding_list(told, language, docname))
    planned = [one for one in experiment.findings if one.severity == "planned"]
    if planned:
        names = word(language, "comma").join(dict.fromkeys(bench.field_label(one.fields[0]) for one in planned))
        title = word(language, "planned_intro", names=names)
        result.append(details("planned", title, _finding_list(planned, language, docname)))
    return result


def _finding_list(found: list[Finding], language: Language, docname: str) -> nodes.bullet_list:
    listed = bullets((_finding(one, language, docname) for one in found), "findings-list")
    for item, one in zip(listed, found, strict=True):
        assert isinstance(item, nodes.Element)
        item["classes"].append(f"slime-lab__finding--{one.severity}")
    return listed


def _finding(finding: Finding, language: Language, docname: str) -> list[nodes.Node]:
    severity = word(language, f"severity_{finding.severity}")
    return [
        nodes.strong("", severity),
        nodes.Text(" "),
        reference("rule", finding.id, finding.id, docname),
        nodes.Text(" " + finding.message.get(language)),
    ]


def layout_table(experiment: Experiment, language: Language) -> nodes.table:
    """Return the facts of the picture; its rows come from the engine, as the picture does."""
    unit = word(language, "processes" if experiment.device == "cpu" else "gpus")
    rows = [(row.what.get(language), str(row.gpus), row.detail.get(language)) for row in experiment.layout.table]
    return table((word(language, "part"), unit, word(language, "detail")), rows, (30, 20, 50), "layout")


def choices(bench: Workbench, experiment: Experiment, docname: str) -> ours.lab_details:
    """Return the visible choices with their values, in the order of the steps."""
    language = bench.language
    rows = []
    for choice in bench.visible_fields(experiment.state):
        value = bench.value_label(choice.name, experiment.state[choice.name])
        rows.append((bench.field_label(choice.name), reference("field", choice.name, choice.name, docname), value))
    header = (word(language, "choice"), word(language, "key"), word(language, "value"))
    return details("choices", word(language, "choices"), table(header, rows, (40, 25, 35), "choices"))


def files(bench: Workbench, experiment: Experiment, uid: str, docname: str) -> ours.lab_files:
    """Return the generated files; a shell that must not run is withheld, with the reason in its place."""
    holder = ours.lab_files()
    if experiment.errors:
        holder += nodes.paragraph("", word(bench.language, "blocked"), classes=["slime-lab__blocked"])
    for name, content in experiment.artifacts.items():
        if experiment.errors and name != "experiment.json":
            continue
        holder += _file(bench, experiment, name, content, uid, docname)
    return holder


def _file(bench: Workbench, experiment: Experiment, name: str, content: str, uid: str, docname: str) -> ours.lab_file:
    suffix = name[name.rindex(".") :]
    block = nodes.literal_block(
        content, content, language=_FILE_LANGUAGES.get(suffix, "text"), classes=["slime-lab__code"]
    )
    caption = ours.lab_caption("", "", nodes.literal("", name))
    node = ours.lab_file("", caption, block, filename=name, content=content, uid=uid, docname=docname)
    if name == "experiment.sh":
        node += details("why", word(bench.language, "why_lines"), reasons(bench, experiment, docname))
    return node


def reasons(bench: Workbench, experiment: Experiment, docname: str) -> nodes.table:
    """Return every argument with why it is there and which choices cause it."""
    language = bench.language
    rows = []
    for line in experiment.arguments:
        causes = [reference("field", name, bench.field_label(name), docname, literal=False) for name in line.fields]
        why = line.why.get(language)
        if line.status == "planned":
            why = f"{why} ({word(language, 'severity_planned')})"
        rows.append((code(line.text), why, separated(causes)))
    header = (word(language, "argument"), word(language, "reason"), word(language, "caused_by"))
    return table(header, rows, (35, 45, 20), "why")
