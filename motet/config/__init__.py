"""Configuration: every choice of a run, where it may come from, and when two runs are the same experiment.

`experiment.py` has the experiment and `with_(...)`; its sections are `data_section.py`, `scoring_section.py` and
`sections.py` (the smaller ones), all built on `section.py`. `presets.py` are the papers' protocols, `names.py` reads
names with options (`fedprox(mu=0.01)+ft`), `short_names.py` and `layers.py` turn flags, keywords and files into one
experiment, `toml.py` reads and writes it, `identity.py` gives it a fingerprint. Imports io and errors alone. Start in
`experiment.py`.
"""
