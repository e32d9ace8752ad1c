"""Chinese full-text search without a dictionary: pairs of neighbouring characters on both sides.

Sphinx's own Chinese search needs jieba to find anything, cannot answer a query of several words even then, and
in Sphinx 9.0 names a stemmer in the browser that does not exist. Character pairs need no segmentation: the
text 张量并行 is stored as 张量, 量并, 并行, and so is the query.
"""

from __future__ import annotations

import re

import snowballstemmer  # type: ignore[import-untyped]
from sphinx.search import SearchLanguage
from sphinx.search.en import SearchEnglish

_RUN = re.compile(r"[\u3400-\u9fff]+|[^\W\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")

_SPLITTER = r"""
var splitQuery = (query) => {
  const terms = [];
  for (const [run] of query.matchAll(/[\u3400-\u9fff]+|(?:(?![\u3400-\u9fff])[\p{L}\p{N}_])+/gu)) {
    if (!/^[\u3400-\u9fff]/.test(run) || run.length === 1) {
      terms.push(run);
      continue;
    }
    for (let at = 0; at + 1 < run.length; at++) terms.push(run.slice(at, at + 2));
  }
  return terms;
};
"""


class ChineseBigrams(SearchLanguage):
    """Search language ``zh``: pairs of Chinese characters, stemmed English words."""

    lang = "zh"
    language_name = "English"
    """Names the stemmer: Sphinx writes ``window.Stemmer = <language_name>Stemmer`` into the page."""
    stopwords = SearchEnglish.stopwords
    js_splitter_code = _SPLITTER
    js_stemmer_rawcode = "english-stemmer.js"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._stemmer = snowballstemmer.stemmer("english")

    def split(self, text: str) -> list[str]:
        """Return the terms of a text: words, and for a run of Chinese its overlapping pairs."""
        terms: list[str] = []
        for run in _RUN.findall(text):
            if not _HAN.match(run) or len(run) == 1:
                terms.append(run)
            else:
                terms.extend(run[at : at + 2] for at in range(len(run) - 1))
        return terms

    def stem(self, word: str) -> str:
        """Return the English stem; Chinese is left as it is."""
        return word if _HAN.match(word) else str(self._stemmer.stemWord(word.lower()))

    def word_filter(self, word: str) -> bool:
        """Tell whether a term is worth storing: not a single character, not a stop word."""
        return len(word) > 1 and word not in self.stopwords
