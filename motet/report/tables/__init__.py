"""Tables for the terminal: what `motet run`, `show`, `compare`, `bench`, `tune` and `list` print.

`runs.py` compares runs, `clients.py` has a row per client, `seeds.py` means over seeds, `metrics.py` any metric,
`compared.py` and `bench.py` the studies, `catalogue.py` the lists of methods, nets and data. `layout.py` makes tables
and sentences fit the window, `columns.py` decides which columns there are; how figures are written is in
`motet/metrics/wording.py`. May import report.finished, metrics and io. Start reading in `runs.py`.
"""
