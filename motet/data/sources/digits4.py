"""digits4: four domains of digits in one .npz."""

from motet.data.sources.npz_form import npz_form
from motet.data.sources.source import Source

ENTRY = Source(
    name="digits4",
    summary="four domains of digits (MNIST, MNIST-M, SVHN, USPS), 32x32 colour pixels, 10 classes",
    paper="Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, ICML 2015 (MNIST-M); Netzer et al., "
    "Reading Digits in Natural Images, 2011 (SVHN); Hull, A Database for Handwritten Text Recognition, 1994 (USPS)",
    licence="research use; of each of the four its own",
    net="cnn4",
    forms=(npz_form("digits4.npz", "image", 10),),
    where="your own: x uint8 [n, 32, 32, 3], y, domain, domain_names",
)
