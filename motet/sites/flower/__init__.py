"""The one folder that knows Flower: how parcels travel over its SuperLink, and what of its inner parts that takes.

`common.py` has the accepted version, calls and records, `fleet.py` is a site's line to the SuperLink, `carrier.py` the
coordinator's, `link.py` the SuperLink itself. Flower promises these parts to nobody: exactly one version is accepted,
and `tests/test_sites_flower.py` says in words what another one lacks. No code travels: a run's bundle holds a name.
"""
