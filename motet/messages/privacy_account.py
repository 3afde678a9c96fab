"""The privacy account of Gaussian noise on the sums of rounds: which (ε, δ) a run has spent on any one client.

Two federations are neighbours if one client has other data in one of them (replace one), whichever client that is: who
takes part is no secret, what a client has is. A round draws its cohort without replacement, always as many. One client
can then move the sum of clipped changes by twice the norm, so that noise with z times the norm as its deviation counts
as z/2.

With all clients in every round the account is exact (privacy loss distribution of Gaussians). With a part of them it is
the bound of Wang, Balle and Kasiviswanathan 2019 for sampling without replacement, in Rényi divergences. The tighter
accounts for Poisson sampling would be wrong here: a fixed number of clients is drawn, and each stands in the way of
another.

dp-accounting is an extra (`pip install motet[dp]`) and is imported when an experiment asks for noise.
"""

import math
from functools import lru_cache
from typing import Any

from motet.errors import MotetError

SENSITIVITY = 2.0
"""How far one client with other data moves a sum of clipped changes, in norms."""

MOST_TIGHT = 100.0
"""The ε from which on the tight account, whose memory grows with ε, would tell nothing that its bound does not."""
ORDERS = (*range(2, 17), 20, 24, 28, 32, 40, 48, 64)
"""Orders of Rényi divergence for cohorts: any of them gives a valid ε, and high ones take seconds."""


def import_accounting() -> Any:
    """Return the module `dp_accounting`; raise `MotetError` where it is not installed."""
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as error:
        raise MotetError(
            f"transforms has 'noise', but dp-accounting cannot be imported ({error}); accepted: pip install 'motet[dp]'"
        ) from None
    return dp_accounting


@lru_cache(maxsize=4096)
def spent_epsilon(multiplier: float, clients: int, cohort: int, rounds: int, delta: float) -> float:
    """Return ε at this δ after so many rounds of `cohort` out of `clients` with noise of `multiplier` norms."""
    dp = import_accounting()
    noise = dp.GaussianDpEvent(multiplier / SENSITIVITY)
    if cohort == clients:
        bound = renyi_epsilon(noise, rounds, delta)
        return tight_epsilon(noise, rounds, delta) if bound < MOST_TIGHT else bound
    drawn = dp.SampledWithoutReplacementDpEvent(clients, cohort, noise)
    return renyi_epsilon(drawn, rounds, delta, dp.NeighboringRelation.REPLACE_ONE, ORDERS)


def tight_epsilon(event: Any, rounds: int, delta: float) -> float:
    """Return ε of an event of dp-accounting, composed with itself, by its privacy loss distribution."""
    dp = import_accounting()
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    return _finite_epsilon(accountant.compose(event, rounds).get_epsilon(delta))


def renyi_epsilon(
    event: Any, rounds: int, delta: float, relation: Any = None, orders: tuple[int, ...] | None = None
) -> float:
    """Return ε of an event of dp-accounting, composed with itself, by the best order of Rényi divergence.

    `relation` is that of neighbours, add or remove one unless it is given; the orders are the library's own.
    """
    dp = import_accounting()
    accountant = dp.rdp.RdpAccountant(orders, relation or dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return _finite_epsilon(accountant.compose(event, rounds).get_epsilon(delta))


def _finite_epsilon(epsilon: float) -> float:
    """Return ε as a number that a record can hold: noise too small to account for counts as 1e9."""
    return float(epsilon) if math.isfinite(epsilon) else 1e9
