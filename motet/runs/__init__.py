"""Runs: an experiment computed into a folder, resumed after any kill, read and served again.

`run.py` runs and resumes, `record.py` is the folder, `rows.py`, `clients_file.py`, `serving_file.py` and `summary.py`
are the files in it, `failures.py` says what failed, `checkpoint.py` saves states that survive a kill,
`served_models.py` makes models of a finished run, `trust.py` decides which code a folder may run. May import server and
all below; knows no study, page or command.
Start reading in `run.py`.
"""
