"""Word lists that instructions count by."""

from __future__ import annotations


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


CONJUNCTIONS = _listed("and but for nor or so yet")
NAMES = _listed("""
    Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper
    Leo Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah
    Layla Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan
""")
"""The names that the instruction count:person_names lists in its own text."""
PRONOUNS = _listed("""
    i me we us you he him she her it they them my mine our ours your yours his hers its their theirs myself ourselves
    yourself yourselves himself herself itself themselves this that these those who whom whose which what whoever
    whomever whatever whichever anybody anyone anything everybody everyone everything nobody nothing somebody someone
    something each either neither both all some any none
""")
_INDEFINITE = _listed("""
    anybody anyone anything everybody everyone everything nobody nothing somebody someone something none whoever
    whomever whatever whichever either neither mine us whose
""")
STOP_WORDS = (PRONOUNS - _INDEFINITE) | _listed("""
    a an the and but if or because as until while of at by for with about against between into through during before
    after above below to from up down in out on off over under again further then once here there when where why how
    few more most other such no nor not only own same so than too very can will just should now am is are was were be
    been being have has had having do does did doing don't isn't aren't wasn't weren't won't wouldn't couldn't
    shouldn't didn't doesn't hasn't haven't hadn't you're you've you'll you'd it's she's that'll should've
""")
"""Function words of English, with their contractions."""
SMALL_WORDS = _listed("a an the and but or nor for so yet of in on at to by as up off per via with from")
"""Words that a title leaves in lower case."""
CAPITALS = (
    "Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chisinau, "
    "Bern, Ljubljana, Zagreb"
)
"""European capitals north of 45 degrees, from north to south, as the instruction wants them written."""
