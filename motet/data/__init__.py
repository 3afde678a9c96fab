"""Data: sources, partitions, and the federation they make."""

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
