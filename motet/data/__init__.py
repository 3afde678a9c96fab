"""Data: sources, partitions, and the federation they make."""

from motet.data.build import build
from motet.data.facts import ClientFacts, FederationFacts
from motet.data.federation import ClientData, Federation, Samples, counts_table
from motet.data.input import Input
from motet.data.partitions import PARTITIONS, deal, describe_partitions
from motet.data.prepare import Prepare
from motet.data.settings import DataSettings
from motet.data.site import Holdings, Site
from motet.data.sources import SOURCES, default_net, describe_sources

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "ClientData",
    "ClientFacts",
    "DataSettings",
    "Federation",
    "FederationFacts",
    "Holdings",
    "Input",
    "Prepare",
    "Samples",
    "Site",
    "build",
    "counts_table",
    "deal",
    "default_net",
    "describe_partitions",
    "describe_sources",
]
