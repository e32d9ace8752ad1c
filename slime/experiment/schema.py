"""The shape of the engine's data: one class per YAML mapping in ``recipes/experiment/``.

Every class forbids unknown keys and is frozen. A key typed ``Expr`` holds an expression: a YAML text is parsed, a YAML
integer or boolean is that literal. Both engines read these objects: Python directly, the browser as JSON in which each
expression has become its list.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, Strict, StringConstraints, model_validator

from slime.experiment.errors import ExpressionError
from slime.experiment.expression import TRUE, Expression, parse
from slime.experiment.facts_schema import FactModel, FlagName, Words


def _read_expression(source: Any) -> Expression:
    if not isinstance(source, (str, int)):
        raise ValueError(f"expected an expression (text, integer or boolean), got {source!r}")
    try:
        return parse(source)
    except ExpressionError as error:
        raise ValueError(str(error)) from None


Expr = Annotated[
    Expression,
    PlainValidator(_read_expression),
    PlainSerializer(lambda expression: expression.tree, return_type=list[Any]),
]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][A-Za-z0-9_]*$")]
SlotName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")]
GuideLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
ShellWord = Annotated[
    str, StringConstraints(pattern=r'^"[A-Za-z0-9_./:=-]*\$([A-Z][A-Z0-9_]*|\{[A-Z][A-Z0-9_]*\})[A-Za-z0-9_./:=-]*"$')
]
"""One double-quoted shell variable with fixed text around it: ``"$SAVE_DIR"``, ``"$SAVE_DIR/logs"``."""
Scalar = Annotated[str, Strict()] | Annotated[bool, Strict()] | Annotated[int, Strict()]


class Step(FactModel):
    """One page of the lab's wizard."""

    id: Name
    label: Words


class EnumValue(FactModel):
    """One value of an enumerated choice."""

    value: str
    label: Words
    help: Words | None = None


class Option(FactModel):
    """A value that the page disables while ``when`` holds; validation still judges it."""

    value: Scalar
    when: Expr
    why: Words


class ChoiceField(FactModel):
    """One choice of the experiment: a key of the flat state."""

    name: Name
    type: Literal["enum", "bool", "int", "text"]
    values: tuple[EnumValue, ...] = Field(default=(), strict=False)
    values_from: Literal["launch", "images"] | None = None
    default: Scalar
    from_launch: str | None = None
    # Choosing another model keeps a value that is not the old model's default: somebody typed it.
    keep_edited: bool = False
    minimum: int | None = None
    maximum: int | None = None
    max_length: int = 2048
    share: bool
    step: Name
    label: Words
    help: Words
    unit: Words | None = None
    example: str | None = None
    guide: GuideLabel | None = None
    """Label of the section of the documentation that explains what is chosen."""
    visible: Expr = TRUE
    options: tuple[Option, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _default_is_legal(self) -> ChoiceField:
        if self.type == "int" and (self.minimum is None or self.maximum is None):
            raise ValueError("an int choice needs minimum and maximum")
        wanted = {"enum": str, "text": str, "bool": bool, "int": int}[self.type]
        if type(self.default) is not wanted:
            raise ValueError(f"default {self.default!r} is not of type {self.type}")
        if self.type == "enum" and not self.values and self.values_from is None:
            raise ValueError("an enum choice needs values")
        if self.type == "enum" and self.values and self.default not in [value.value for value in self.values]:
            raise ValueError(f"default {self.default!r} is none of the values")
        return self


class Derived(FactModel):
    """A value computed from the choices and facts; later ones may read earlier ones."""

    name: Name
    value: Expr
    unit: str | None = None


class Retired(FactModel):
    """A key of earlier exports that is no choice any more: dropped with a note."""

    name: Name
    why: Words


class FieldsFile(FactModel):
    """``fields.yaml``."""

    steps: tuple[Step, ...] = Field(strict=False)
    fields_: tuple[ChoiceField, ...] = Field(alias="fields", strict=False)
    derived: tuple[Derived, ...] = Field(strict=False)
    retired: tuple[Retired, ...] = Field(default=(), strict=False)


class Transition(FactModel):
    """A linked change: when choice ``on`` was edited and ``when`` holds, ``set`` follows in the same step.

    Rows with ``on: sanitise`` run last, after every edit and after reading outside input.
    """

    id: Name
    on: Name
    when: Expr = TRUE
    set: dict[Name, Expr]
    announce: Words


class TransitionsFile(FactModel):
    """``transitions.yaml``."""

    transitions: tuple[Transition, ...] = Field(strict=False)


class Repair(FactModel):
    """A proposed change that removes a finding; offered only after applying it on a copy proved that it does."""

    id: Name
    title: Words
    when: Expr = TRUE
    set: dict[Name, Expr]


class RuleExamples(FactModel):
    """Choices that must (``bad``) and must not (``good``) make the rule speak."""

    bad: tuple[dict[str, Scalar], ...] = Field(default=(), strict=False)
    good: tuple[dict[str, Scalar], ...] = Field(default=(), strict=False)


class Rule(FactModel):
    """One check: a finding appears while ``when`` holds."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Z][0-9]{2}$")]
    severity: Literal["error", "note"]
    when: Expr
    fields_: tuple[Name, ...] = Field(default=(), alias="fields", strict=False)
    each: tuple[Name, ...] = Field(default=(), strict=False)
    values: dict[Name, Expr] = Field(default_factory=dict)
    message: Words
    repair: tuple[Repair, ...] = Field(default=(), strict=False)
    docs: str | None = None
    source: str | None = None
    examples: RuleExamples = RuleExamples()


class RulesFile(FactModel):
    """``rules.yaml``."""

    rules: tuple[Rule, ...] = Field(strict=False)


class Group(FactModel):
    """A heading over neighbouring argument lines."""

    id: Name
    title: Words


class ArgumentRow(FactModel):
    """One row of the argument table: a flag with its words (``value`` or ``each``, then ``shell``), or a ``splice``."""

    group: Name
    target: Literal["train", "serving", "reference", "convert"] = "train"
    flag: FlagName | None = None
    value: Expr | None = None
    each: Expr | None = None
    shell: ShellWord | Annotated[tuple[ShellWord, ...], Strict(False)] = ()
    splice: Literal["training_flags", "serving_flags"] | None = None
    when: Expr = TRUE
    why: Words | None = None
    fields_: tuple[Name, ...] = Field(default=(), alias="fields", strict=False)

    @property
    def shell_words(self) -> tuple[str, ...]:
        """The shell words as a tuple."""
        return (self.shell,) if isinstance(self.shell, str) else self.shell

    @model_validator(mode="after")
    def _one_kind(self) -> ArgumentRow:
        if self.value is not None and self.each is not None:
            raise ValueError("give one of value and each, or neither for a switch")
        if (self.splice is None) != (self.flag is not None and self.why is not None):
            raise ValueError("a row has flag and why, or splice alone")
        return self


class EnvironmentRow(FactModel):
    """A variable of the training job's environment, or the splice of the recipe's own variables."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    value: Expr | None = None
    shell: ShellWord | None = None
    splice: Literal["environment"] | None = None
    when: Expr = TRUE
    why: Words | None = None
    fields_: tuple[Name, ...] = Field(default=(), alias="fields", strict=False)

    @model_validator(mode="after")
    def _one_kind(self) -> EnvironmentRow:
        complete = self.name is not None and self.why is not None and (self.value is None) != (self.shell is None)
        if self.splice is None and not complete:
            raise ValueError("a row has name, why and one of value and shell, or splice alone")
        return self


class Slot(FactModel):
    """A named value inside the fixed text of a script.

    ``as: shell`` gives a shell word (a user's text always single-quoted), ``as: plain`` the bare text; the latter is
    allowed only where no text that a user typed can reach it.
    """

    value: Expr
    as_: Literal["shell", "plain"] = Field(alias="as")


class BlockPart(FactModel):
    """Lines that appear while ``when`` holds. They may hold inline slots."""

    when: Expr = TRUE
    text: str


class ArgumentsFile(FactModel):
    """``arguments.yaml``."""

    groups: tuple[Group, ...] = Field(strict=False)
    arguments: tuple[ArgumentRow, ...] = Field(strict=False)
    environment: tuple[EnvironmentRow, ...] = Field(strict=False)
    shell_words: tuple[ShellWord, ...] = Field(strict=False)
    slots: dict[SlotName, Slot]
    blocks: dict[SlotName, Annotated[tuple[BlockPart, ...], Strict(False)]]


class Preset(FactModel):
    """A named starting point: the state that reading ``set`` gives."""

    id: Name
    label: Words
    help: Words
    set: dict[Name, Scalar]


class PresetsFile(FactModel):
    """``presets.yaml``."""

    presets: tuple[Preset, ...] = Field(strict=False)


class Baseline(FactModel):
    """What a starting point meant in one version of the links: every shareable choice with its value. Never edited."""

    version: Annotated[int, Field(ge=1, le=9999)]
    preset: Name
    values: dict[Name, Scalar]


class Migration(FactModel):
    """From the links of one version to those of the next; the steps run in the order of the keys here.

    ``values`` replaces words of a choice, ``drop`` forgets choices, ``rename`` renames them, and ``set`` writes down
    what the older version meant without saying it. Values are written as they stand in a link.
    """

    from_: Annotated[int, Field(ge=1, le=9999)] = Field(alias="from")
    values: dict[Name, dict[str, str]] = Field(default_factory=dict)
    drop: tuple[Name, ...] = Field(default=(), strict=False)
    rename: dict[Name, Name] = Field(default_factory=dict)
    set: dict[Name, str] = Field(default_factory=dict)


class LinksFile(FactModel):
    """``links.yaml``."""

    version: Annotated[int, Field(ge=1, le=9999)]
    baselines: tuple[Baseline, ...] = Field(strict=False)
    migrations: tuple[Migration, ...] = Field(default=(), strict=False)
