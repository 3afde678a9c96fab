"""What each method learned: the pictures that its run keeps."""

from motet.report.page.blocks import Block, Charts, PageSection, Words
from motet.report.page.contents import PageContents
from motet.report.page.learned_figures import read_pictures


def learned(contents: PageContents) -> PageSection | None:
    """The pictures of every contender's first run."""
    blocks: list[Block] = []
    for contender in contents.contenders:
        found = read_pictures(contender.first.finished.folder, contender.label, contender.series + 1)
        if found.charts:
            blocks += [Charts([chart]) for chart in found.charts]
        if found.problems:
            blocks.append(Words([f"{contender.label}: {problem}" for problem in found.problems]))
    if not blocks:
        return None
    see = "What a method found out about its clients, such as who learns from whom."
    return PageSection("learned", "What the methods learned", see, blocks)
