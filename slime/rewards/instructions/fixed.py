"""Instructions of IFBench (arXiv 2507.02833) that ask one fixed question: tables, dates, lists, reversals."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import re
import string
import unicodedata

from slime.rewards.instructions.registry import instruction
from slime.rewards.instructions.text import EDGES, lines, sentences
from slime.rewards.instructions.vocabulary import CAPITALS

QUESTION = re.compile(r"^\s*Question\b[^\n]*?\d*[.):;]?", re.MULTILINE)
OPTION = re.compile(r"\s*[A-Ea-e][.)]\s*\w")
QUESTIONS, OPTIONS = 4, 5
COUNTRIES = 52
NAPOLEON = (datetime.date(1769, 1, 1), datetime.date(1821, 12, 31))
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@instruction("custom:multiples")
def multiples_of_seven(response: str) -> bool:
    """The multiples of 7 from 10 to 50 in order, and no other number."""
    return [int(number) for number in re.findall(r"\d+", response)] == list(range(14, 51, 7))


@instruction("custom:mcq_count_length")
def four_questions(response: str) -> bool:
    """Four questions labelled "Question", nothing before, five options each, each longer than the last."""
    starts = [found.start() for found in QUESTION.finditer(response)]
    if len(starts) != QUESTIONS or response[: starts[0]].strip():
        return False
    lengths = []
    for start, end in zip(starts, [*starts[1:], len(response)], strict=True):
        found = lines(response[start:end])
        options = [place for place, line in enumerate(found) if OPTION.match(line)]
        if len(options) != OPTIONS:
            return False
        label = re.sub(r"^\s*Question\s*\d*[.):;]?\s*", "", " ".join(found[: options[0]]))
        lengths.append(len(label.strip()))
    return all(one < two for one, two in itertools.pairwise(lengths))


@instruction("custom:reverse_newline")
def countries_backwards(response: str) -> bool:
    """From Zimbabwe on, at least 52 lines in reverse alphabetical order; accents do not count."""
    names = [name for line in lines(response) if (name := _unaccented(line).strip(string.punctuation + " "))]
    start = next((place for place, name in enumerate(names) if "Zimbabwe" in name), len(names))
    kept = names[start:]
    return len(kept) >= COUNTRIES and kept == sorted(kept, reverse=True)


def _unaccented(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@instruction("custom:word_reverse")
def words_backwards(response: str) -> bool:
    """One sentence about the bald eagle, its words in reverse order."""
    clean = response.lower().translate(str.maketrans("", "", string.punctuation))
    return "bald eagle" in " ".join(reversed(clean.split())) and "bald eagle" not in " ".join(clean.split())


@instruction("custom:character_reverse")
def letters_backwards(response: str) -> bool:
    """The bald eagle, spelled backwards."""
    return "elgae dlab" in response.lower()


@instruction("custom:sentence_alphabet")
def alphabet_of_sentences(response: str) -> bool:
    """26 sentences that begin with a to z."""
    starts = [sentence.lstrip(EDGES)[:1].lower() for sentence in sentences(response)]
    return starts == list(string.ascii_lowercase)


@instruction("custom:european_capitals_sort")
def capitals_by_latitude(response: str) -> bool:
    """The 27 capitals north of 45 degrees, from north to south, with commas between them."""
    return ", ".join(name.strip().rstrip(".") for name in _unaccented(response).split(",") if name.strip()) == CAPITALS


@instruction("custom:csv_city")
def city_table(response: str) -> bool:
    """A header of five columns and seven rows, divided by commas."""
    table = _table(response, ",")
    return len(table) == 8 and table[0] == ["ID", "Country", "City", "Year", "Count"] and _square(table)


@instruction("custom:csv_special_character")
def product_table(response: str) -> bool:
    """A header of five columns and 14 rows; one field in double quotes has a special character."""
    table = _table(response, ",")
    header = [name.strip() for name in table[0]] if table else []
    quoted = re.findall(r'"([^"\n]*)"', response.strip().partition("\n")[2])
    return (
        len(table) == 15
        and header == ["ProductID", "Category", "Brand", "Price", "Stock"]
        and _square(table)
        and any(re.search(r"[^\w\s]", field) for field in quoted)
    )


@instruction("custom:csv_quotes")
def student_table(response: str) -> bool:
    """A header of five columns and three rows, divided by tabs, every field in double quotes."""
    rows = [line.split("\t") for line in lines(response)]
    fields = [field.strip() for row in rows for field in row]
    header = [field.strip().strip('"') for field in rows[0]] if rows else []
    return (
        len(rows) == 4
        and header == ["StudentID", "Subject", "Grade", "Semester", "Score"]
        and _square(rows)
        and all(re.fullmatch(r'"[^"]*"', field) for field in fields)
    )


def _table(response: str, delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(response.strip()), delimiter=delimiter))
    except csv.Error:  # a field beyond the reader's limit, or a bare carriage return
        return []


def _square(table: list[list[str]]) -> bool:
    return all(len(row) == 5 for row in table)


@instruction("custom:date_format_list")
def list_of_dates(response: str) -> bool:
    """Dates as YYYY-MM-DD in Napoleon's lifetime, with commas between them and nothing else."""
    dates = [date.strip() for date in response.strip().split(",")]
    return all(DATE.fullmatch(date) and _in_his_life(date) for date in dates)


def _in_his_life(text: str) -> bool:
    try:
        return NAPOLEON[0] <= datetime.date.fromisoformat(text) <= NAPOLEON[1]
    except ValueError:
        return False
