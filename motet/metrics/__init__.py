"""Metrics: what is measured of a model, of a client's models together, and of a whole run.

`names.py` has the one name of every number that is reported; `metric.py` what a metric is; `registry.py` lists them by
name. `client_scores.py` scores a model where a client's data are, `over_clients.py` averages the scores over clients,
and `statistics.py` is the one place that computes an interval or a verdict about chance. May import training, data,
nets, messages, config, io and `methods.base`; knows neither a method nor an engine. Start reading in `metric.py`.
"""
