"""FedBasis (2022): personal models are mixtures of a few basis models that all clients share.

`method` is the algorithm, `mixing` makes θ from bases, `coefficients` learns ψ on frozen bases (step 2 and
Algorithm 2), `recurrence` trains all bases as one vector (step 4), `explicit` trains them one by one,
`warm_start` makes the first bases.
"""

from motet.methods.fedbasis.method import FedBasis

__all__ = ["FedBasis"]
