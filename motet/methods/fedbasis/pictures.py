"""What FedBasis learned: who takes what of which basis, and whether the bases are still several."""

from collections.abc import Mapping

from motet.contract import Axis, Learned, Picture
from motet.message import tensor

ALPHA = "fedbasis.alpha"


def shares(learned: Learned, blocks: Mapping[int, str], k: int) -> list[Picture]:
    """Every client's α in these blocks; none during the warm start, when there are no bases."""
    told = [tensor(each, ALPHA) for each in learned.portraits.values() if ALPHA in each]
    if not told or len(told) < len(learned.portraits):
        return []
    return [
        Picture.heatmap(
            "fedbasis-coefficients",
            "FedBasis: what each client takes of each basis (α), block by block",
            "Clients with high values in the same columns share bases; an even row takes a bit of everything.",
            [alpha[list(blocks)].flatten().tolist() for alpha in told],
            x=Axis(
                "block and basis", tuple(f"{block or 'all'} v{i + 1}" for block in blocks.values() for i in range(k))
            ),
            y=learned.portrayed(),
        )
    ]


def collapse(learned: Learned) -> list[Picture]:
    """Figure 2: the signs of collapse over the rounds."""
    rounds, (cosine, spread) = learned.over_rounds("fedbasis_cosine", "fedbasis_spread")
    if not rounds.ticks:
        return []
    return [
        Picture.lines(
            "fedbasis-cosines",
            "FedBasis: how alike the bases are",
            "A cosine that climbs to 1, and a spread that falls to 0, are bases that collapse into one model.",
            {"mean cosine of two bases": cosine, "spread around their mean": spread},
            x=rounds,
            y="",
        )
    ]
