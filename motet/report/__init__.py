"""Report: finished runs and comparisons as tables for the terminal, charts, and one HTML page.

`finished.py` reads the folders, `tables/` writes for the terminal (with rich), `charts/` draws SVG without any library,
`page/` puts everything into one file that needs no network. `progress.py` shows a run while it goes on. May import
runs, studies (the files they write), metrics, config and io; trains and changes nothing. Start reading in
`finished.py`, then `tables/runs.py`.
"""
