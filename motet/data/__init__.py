"""Data: sources, partitions, and the federation they make."""

from motet.data.build import build
from motet.data.federation import ClientData, Federation, Samples, counts_table
from motet.data.partitions import PARTITIONS, deal, describe_partitions
from motet.data.prepare import Prepare
from motet.data.settings import DataSettings
from motet.data.sources import SOURCES, default_net, describe_sources

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "ClientData",
    "DataSettings",
    "Federation",
    "Prepare",
    "Samples",
    "build",
    "counts_table",
    "deal",
    "default_net",
    "describe_partitions",
    "describe_sources",
]
