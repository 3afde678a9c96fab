"""The sections of the page in their order; a section without content is left out.

First comes what a user of a model asks: the answer, the clients by name, what it costs. Then all figures, and folded
away what a student of methods asks.
"""

from collections.abc import Callable

from motet.report.page.blocks import PageSection
from motet.report.page.contents import PageContents
from motet.report.page.sections.analyses import calibration, learned
from motet.report.page.sections.answer import answer
from motet.report.page.sections.clients import clients
from motet.report.page.sections.cost import cost
from motet.report.page.sections.newcomers import newcomers
from motet.report.page.sections.over_rounds import over_rounds
from motet.report.page.sections.settings import settings
from motet.report.page.sections.summary import summary
from motet.report.page.sections.tradeoff import tradeoff
from motet.report.page.sections.tuning import tuning

SECTIONS: tuple[Callable[[PageContents], PageSection | None], ...] = (
    answer,
    clients,
    newcomers,
    cost,
    summary,
    tradeoff,
    over_rounds,
    learned,
    calibration,
    tuning,
    settings,
)


def sections_of(contents: PageContents) -> list[PageSection]:
    """Return the sections that have content."""
    return [section for make in SECTIONS if (section := make(contents))]
