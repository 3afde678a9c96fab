"""Data: from a name, a file or arrays to a federation of clients with their samples.

`build.py` does it in order: `sources/` finds data by name and `readers/` read the user's files (both return `RawData`),
`partitions/` deal rows to clients, `prepare*.py` turn stored samples into network input, `federation.py` holds the
result. `facts.py` is what the server may know, `holdings.py` what a client's machine holds. May import config, io and
training.randomness; knows no net, method or engine. Start reading in `build.py`.
"""

from motet.config.data_section import DataSettings
from motet.data.build import build
from motet.data.facts import ClientFacts, FederationFacts
from motet.data.federation import ClientData, Federation, Samples, counts_table
from motet.data.holdings import Holdings, Site
from motet.data.input import Input
from motet.data.partitions.registry import PARTITIONS, deal, describe_partitions
from motet.data.prepare import ImagePrepare, Prepare, SignalPrepare, TokensPrepare, VectorPrepare, fit_prepare
from motet.data.prepare_table import TablePrepare
from motet.data.readers.raw import RawData
from motet.data.readers.registry import from_arrays
from motet.data.schema import Schema
from motet.data.sources import (
    SOURCES,
    Source,
    default_net,
    default_partition,
    describe_sources,
    fetch_source,
    locate_sources,
)

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "ClientData",
    "ClientFacts",
    "DataSettings",
    "Federation",
    "FederationFacts",
    "Holdings",
    "ImagePrepare",
    "Input",
    "Prepare",
    "RawData",
    "Samples",
    "Schema",
    "SignalPrepare",
    "Site",
    "Source",
    "TablePrepare",
    "TokensPrepare",
    "VectorPrepare",
    "build",
    "counts_table",
    "deal",
    "default_net",
    "default_partition",
    "describe_partitions",
    "describe_sources",
    "fetch_source",
    "fit_prepare",
    "from_arrays",
    "locate_sources",
]
